#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""screenshot.py CHEETAH FOLDER: draws the report of run.json in headless Chromium, from a file and without a network,
and looks for the plots' colours in the picture. Exit 77 (skipped) without Chromium."""
import pathlib
import shutil
import struct
import subprocess
import sys
import zlib

FIXTURE = pathlib.Path(__file__).resolve().parent / "run.json"
# What must be seen, and how much of it: bars by verdict, sweeps and points by series.
COLOURS = {"baseline bar": (0x55636F, 500), "faster bar": (0x2A7D5C, 500), "slower bar": (0xB8432F, 200),
           "first series": (0xC26A00, 40), "second series": (0x1D6FA5, 40)}


def pixels(png):
    """Rows of RGB bytes of a PNG with 8 bits a channel, not interlaced: what Chromium writes."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, width, channels = 8, b"", 0, 0
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, _, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and colour in (2, 6) and interlaced == 0, "an unexpected kind of PNG"
            channels = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            data += body
        at += 12 + size
    raw, stride = zlib.decompress(data), width * channels
    previous = bytearray(stride)
    for start in range(0, len(raw), stride + 1):
        previous = unfiltered(raw[start], bytearray(raw[start + 1:start + 1 + stride]), previous, channels)
        yield previous, channels


def unfiltered(kind, row, above, step):
    for i in range(len(row) if kind else 0):
        left, up = (row[i - step] if i >= step else 0), above[i]
        corner = above[i - step] if i >= step else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        else:
            base = left + up - corner
            guess = min((abs(base - left), 0, left), (abs(base - up), 1, up), (abs(base - corner), 2, corner))[2]
        row[i] = (row[i] + guess) & 255
    return row


def count_colours(png):
    wanted = {colour.to_bytes(3, "big"): 0 for colour, _ in COLOURS.values()}
    for row, channels in pixels(png):
        for i in range(0, len(row), channels):
            key = bytes(row[i:i + 3])
            if key in wanted:
                wanted[key] += 1
    return wanted


def main():
    cheetah, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("skipped: Chromium is needed")
        return 77
    folder.mkdir(parents=True, exist_ok=True)
    page, picture = folder / "report.html", folder / "report.png"
    picture.unlink(missing_ok=True)
    subprocess.run([cheetah, "lab", "report", str(FIXTURE), "-o", str(page)], check=True, timeout=60)
    subprocess.run([chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                    "--host-resolver-rules=MAP * ~NOTFOUND", "--force-device-scale-factor=1", "--window-size=1000,3400",
                    f"--user-data-dir={folder / 'profile'}", f"--screenshot={picture}", page.resolve().as_uri()],
                   check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = count_colours(picture.read_bytes())
    missing = [f"{name}: {seen[colour.to_bytes(3, 'big')]} of {least} pixels" for name, (colour, least) in COLOURS.items()
               if seen[colour.to_bytes(3, "big")] < least]
    print("\n".join(missing) or "every plot is seen")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
