"""What a mapped netlist takes, as columns of rtl/README.md's table: LUTs, registers, bits of memory, and levels of LUTs
between two registers. `rtl/levels.py NETLIST`, as yosys's `write_json` makes it of `$lut`, registers, `$mem_v2` and modules.

Modules are not flattened: each is looked at once. What those who use it need to know of it is, for each output, from which
inputs that comes without a register between, and through how many LUTs at most; and the same for its registers. These are
longest paths from bit to bit, so the levels are those of `flatten; opt_clean -purge; ltp -noff`.
"""

import json
import sys


class Module:
    def __init__(self, source, modules):
        self.luts = self.registers = self.memory = 0
        self.bits, self.at = {"input": [], "output": []}, {}
        for name, port in source["ports"].items():
            bits = self.bits[port["direction"]]
            self.at[name] = (port["direction"], len(bits))
            bits += port["bits"]
        # By bit: others, paths from some of these (which one, and LUTs on the way), and LUTs since a register.
        self.drivers = {}
        # The same of what ends in registers, its own and those of an instance.
        self.ends = []
        for cell in source["cells"].values():
            self.add(cell["type"], cell, modules)

    def add(self, kind, cell, modules):
        connections = cell["connections"]
        if kind == "$lut":
            self.luts += 1
            inputs = connections["A"]
            self.drivers[connections["Y"][0]] = (inputs, [(place, 1) for place in range(len(inputs))], 1)
        elif kind == "$mem_v2" or (kind.startswith("$_") and "DFF" in kind):
            if kind == "$mem_v2":
                self.memory += int(cell["parameters"]["SIZE"], 2) * int(cell["parameters"]["WIDTH"], 2)
            else:
                self.registers += 1
            inputs = [
                bit for name, bits in connections.items() if name not in ("Q", "RD_DATA") for bit in bits
            ]
            self.ends.append((inputs, [(place, 0) for place in range(len(inputs))], 0))
        elif kind in modules:
            self.use(modules[kind], connections)
        elif kind != "$scopeinfo":
            sys.exit(f"{sys.argv[1]}: a cell of type {kind}: map it to $lut, registers or memories first")

    def use(self, child, connections):
        self.luts += child.luts
        self.registers += child.registers
        self.memory += child.memory
        # What is not connected is as a constant.
        ends = {direction: ["x"] * len(bits) for direction, bits in child.bits.items()}
        for name, bits in connections.items():
            direction, begin = child.at[name]
            ends[direction][begin : begin + len(bits)] = bits
        for bit, (paths, since) in zip(ends["output"], child.to_outputs, strict=True):
            self.drivers[bit] = (ends["input"], paths, since)
        self.ends.append((ends["input"], *child.to_registers))

    def in_order(self):
        """Bits that something drives, each after those that it comes from."""
        order, done = [], {}
        for first in self.drivers:
            stack = [] if first in done else [(first, self.before(first))]
            while stack:
                bit, before = stack[-1]
                done.setdefault(bit, False)
                source = next(
                    (source for source in before if source in self.drivers and not done.get(source)), None
                )
                if source is None:
                    done[bit] = True
                    order.append(bit)
                    stack.pop()
                elif source in done:
                    sys.exit(f"{sys.argv[1]}: LUTs in a loop without a register, at bit {source}")
                else:
                    stack.append((source, self.before(source)))
        return order

    def before(self, bit):
        others, paths, _ = self.drivers[bit]
        return (others[place] for place, _ in paths)

    def summarize(self):
        """For those who use it; then the rest can go."""
        order, inputs = self.in_order(), {bit: place for place, bit in enumerate(self.bits["input"])}
        order.reverse()
        self.to_outputs = [self.back([([bit], [(0, 0)], 0)], order, inputs) for bit in self.bits["output"]]
        self.to_registers = self.back(self.ends, order, inputs)
        self.drivers = self.ends = None

    def back(self, ends, order, inputs):
        """The longest paths to any of these ends: from which inputs, and from a register."""
        lengths, since = {}, 0
        for bits, paths, of_these in ends:
            since = max(since, of_these)
            for place, luts in paths:
                lengths[bits[place]] = max(lengths.get(bits[place], 0), luts)
        for bit in order:
            after = lengths.pop(bit, None)
            if after is None:
                continue
            others, paths, of_these = self.drivers[bit]
            since = max(since, after + of_these)
            for place, luts in paths:
                other = others[place]
                lengths[other] = max(lengths.get(other, 0), after + luts)
        paths = [(inputs[bit], luts) for bit, luts in lengths.items() if bit in inputs]
        return paths, max([since, *(luts for bit, luts in lengths.items() if bit not in inputs)])

    def levels(self):
        """The longest path from inputs and registers to registers and outputs."""
        arrival = {}
        outputs = self.bits["output"]
        for bit in self.in_order():
            arrival[bit] = latest(arrival, *self.drivers[bit])
        ends = [*self.ends, (outputs, [(place, 0) for place in range(len(outputs))], 0)]
        return max(latest(arrival, *end) for end in ends)


def latest(arrival, bits, paths, since):
    return max([since, *(arrival.get(bits[place], 0) + luts for place, luts in paths)])


def main():
    with open(sys.argv[1]) as file:
        sources = json.load(file)["modules"]
    top = next(name for name, source in sources.items() if int(source["attributes"].get("top", "0"), 2))
    modules = {}

    def make(name):
        for cell in sources[name]["cells"].values():
            if cell["type"] in sources and cell["type"] not in modules:
                make(cell["type"])
        modules[name] = Module(sources[name], modules)
        if name != top:
            modules[name].summarize()

    make(top)
    of_top = modules[top]
    print(of_top.luts, of_top.registers, of_top.memory, of_top.levels())


if __name__ == "__main__":
    main()
