"""Prints the images and what the model says of them: `python samples/digits/show.py IMAGES.npz OUTPUTS.npz`."""

import sys
from pathlib import Path

import numpy as np

SHADES = " .:-=+*#%@"


def main() -> None:
    images = np.load(sys.argv[1])["image"]
    probabilities = np.load(sys.argv[2])["probability"]
    labels = (Path(__file__).parent / "labels.txt").read_text().split()
    for start in range(0, len(images), 6):
        group = range(start, min(start + 6, len(images)))
        for row in range(8):
            print("   ".join("".join(SHADES[int(v / 16 * 9)] * 2 for v in images[i][row]) for i in group))
        captions = [f"{probabilities[i].argmax()} ({probabilities[i].max():.0%}), is {labels[i]}" for i in group]
        print("   ".join(f"{caption:16}" for caption in captions) + "\n")
    right = sum(int(p.argmax()) == int(label) for p, label in zip(probabilities, labels, strict=True))
    print(f"{right} of {len(labels)} right")


if __name__ == "__main__":
    main()
