"""Reads a list of cases as JSON from stdin, simulates them, and writes the completion times of their messages (ps) to stdout."""

import json
import sys

import cxl
import dcqcn
import edm
import fastpass
import ideal
import ndp
import pfabric
import receiver_driven
import streams

FABRICS = {
    "ideal": ideal,
    "edm": edm,
    "cxl": cxl,
    "tcp": streams,
    "dctcp": streams,
    "pfabric": pfabric,
    "phost": receiver_driven,
    "homa": receiver_driven,
    "ird": receiver_driven,
    "ndp": ndp,
    "fastpass": fastpass,
    "pfc-dcqcn": dcqcn,
}


def main():
    cases = json.load(sys.stdin)
    json.dump([FABRICS[case["fabric"]].completions(case) for case in cases], sys.stdout)


if __name__ == "__main__":
    main()
