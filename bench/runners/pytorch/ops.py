"""Every builder: importing a family registers its ops."""
import ops_elementwise  # noqa: F401
import ops_layout  # noqa: F401
import ops_losses  # noqa: F401
import ops_normalization  # noqa: F401
import ops_recurrent  # noqa: F401
import ops_sums  # noqa: F401
import ops_window  # noqa: F401
from registry import BUILDERS, build  # noqa: F401
