"""ideal: a message takes only the transmission time of its bits at the rate of the links, and the propagation."""


def completions(case):
    byte = 8 * 10**12 // case["rate_bps"]
    distance = 2 * case["propagation_ps"]
    times = []
    for message in case["messages"]:
        time = message["bytes"] * byte + distance
        if message["kind"] in ("read", "rmw"):
            time += message["request"] * byte + distance
        times.append(time)
    return times
