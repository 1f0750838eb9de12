// The table of commands, in the order that --help shows them.
#include <array>

#include "bench/cli/cli.h"
#include "bench/cli/measures.h"

namespace etalon::cli {
namespace {

constexpr std::array kCommands{
    Command{"demo", "The tour on real data: a model in, reference bits out, two frameworks judged",
            &demo_command},
    Command{"doctor", "What this machine has, what is missing, and the command that adds it",
            &doctor_command},
    Command{"inspect", "Format, graph, tensors, shapes and hashes of a file", &inspect_command,
            "etalon inspect bench/demo/lenet.onnx"},
    Command{"convert", "A model or tensors to ONNX, safetensors, npz or the neutral graph",
            &convert_command, "etalon convert lenet.onnx -o lenet.safetensors"},
    Command{"run", "Outputs under a contract, and their hashes", &run_command,
            "etalon run bench/demo/lenet.onnx --data mnist --contract exact"},
    Command{"bench", "Speed as ratios, and its price in error", &bench_command,
            "etalon bench lenet resnet50 --vs onednn"},
    Command{"validate", "Is a framework's answer wrong, or only different? Which layer, and why?",
            &validate_command,
            "etalon validate bench/demo/lenet.onnx --against onnxruntime,pytorch --data mnist"},
    Command{"judge", "The verdict on a dumped tensor: op, inputs, output", &judge_command,
            "etalon judge conv --inputs x=x.npy w=w.npy --output y.npy --params strides=2,2"},
    Command{"ulp", "Two saved tensors against each other, in units in the last place", &ulp_command,
            "etalon ulp got.npy exact.npy --fail-above 2"},
    Command{"survey", "All 2^32 inputs of a library's function against the correctly rounded value",
            &survey_command, "etalon survey exp tanh --of glibc,numpy"},
    Command{"edges", "Inputs whose exact value lies next to a rounding boundary", &edges_command,
            "etalon edges log --within 1e-6"},
    Command{"kernels", "Which kernels an op has, what each promises, and why each would refuse",
            &kernels_command, "etalon kernels conv --inputs 'f32[1,3,8,8]' 'f32[4,3,3,3]'"},
    Command{"frameworks",
            "The live frameworks: which are here, which version; 'add NAME' installs one",
            &frameworks_command, "etalon frameworks add onnxruntime"},
    Command{"lab",
            "The classroom: a site that computes convolutions with this engine in the browser",
            &lab_command, "etalon lab conv -o site --serve"},
    Command{"report", "The HTML page of a record", &report_command,
            "etalon report record.json -o page.html"},
    Command{"version", "Version, commit, compiler", &version_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace etalon::cli
