"""Verbs of the command, as functions. Written by `python/generate.py` from the command's own definition.

Each runs the command and returns a `Result`; `compare` and `map` are evaluated in this process, and the command only makes
the runs. Arguments are those of the command: numbers, or text with units (`"10us"`, `"25%"`, `"100Gbps"`). A function raises
`Refused`, `Failed` or `Lacking`, depending on the exit status. Ctrl-C ends the command.
"""

from unrack.results import Result, Value, Values, called


def compare(
    *command: Value,
    access: Value | None = None,
    local: Value | None = None,
    placement: Value | None = None,
    fabric: Values | None = None,
    rack: Value | None = None,
    scope: Value | None = None,
    nodes: Value | None = None,
    rate: Value | None = None,
    transfers: Value | None = None,
    repeat: Value | None = None,
    budget: Value | None = None,
    seed: Value | None = None,
    out: Value | None = None,
    replace: bool = False,
    fail_if: Value | None = None,
) -> Result:
    """Compares fabrics by the slowdown of a program with part of its memory remote: the main job.

    Args:
        command: The program and its arguments.
        access: Unit in which the program accesses remote memory: `pages` by page faults, `lines` (or `cxl`)
            by loads and stores, or `both` (default: pages).
        local: Memory that stays local: a share of the program's footprint, or a size (default: 25%).
        placement: Rule by which pages come into local memory, for loads and stores: interleaved (in turns of
            their addresses), first-touch (until it is full), hottest (by the whole run), tiered (moved by
            use, as Linux does), dram-cache (local memory caches remote memory), all-remote, or remote:NAME
            (only memory of this name is remote, such as remote:[heap]) (default: interleaved).
        fabric: Fabrics to simulate, with commas between them (default: ideal,edm,cxl,dctcp).
        rack: Network between the nodes (default: star). One of star, drack, leaf-spine.
        scope: Memory that a compute blade uses (default: datacenter). One of rack, datacenter.
        nodes: Nodes of the rack: half compute blades that all run the program, half memory blades (default:
            16).
        rate: Rate of every link, in the simulation and for injected delays (default: 100Gbps).
        transfers: Pages or lines to simulate for each fabric, over all blades: of pages, from the middle of
            the run (default: 300000).
        repeat: Rounds of runs. The first round has one run at each injected delay; each further round has one
            at the smallest and one at the largest delay. There are three more native runs than rounds
            (default: 2).
        budget: Time limit of the whole command, such as 90s or 2m. If it is too short, runs are left out, a
            recorded run of lines ends early, and answers that need the missing runs are withheld. Remaining
            time goes into more runs where answers are too uncertain.
        seed: Seed of all random choices (default: 1).
        out: Run folder: created, or rewritten if it has the same command, local share, fabrics and rack
            (default: unrack-compare).
        replace: Replace the run in that folder, even if it has another command or other settings.
        fail_if: Exit with status 1 if this expression over the summary holds, such as 'slowdown.p99>3' or
            'completed<messages or completion_ns.p99>5us'; a missing value makes it hold.
    """
    return called(
        ["compare"],
        {
            "--access": access,
            "--local": local,
            "--placement": placement,
            "--fabric": fabric,
            "--rack": rack,
            "--scope": scope,
            "--nodes": nodes,
            "--rate": rate,
            "--transfers": transfers,
            "--repeat": repeat,
            "--budget": budget,
            "--seed": seed,
            "--out": out,
            "--replace": replace,
            "--fail-if": fail_if,
        },
        [*command],
        lists={"--fabric": ","},
        json_to="stdout",
        out="--out",
        trailing=True,
    )


def map(
    *command: Value,
    local: Values | None = None,
    latency: Values | None = None,
    bandwidth: Values | None = None,
    repeat: Value | None = None,
    budget: Value | None = None,
    out: Value | None = None,
    replace: bool = False,
) -> Result:
    """Maps a program's slowdown over latency, bandwidth and local share.

    Args:
        command: The program and its arguments.
        local: Memory that stays local: shares of the program's footprint, or sizes, with commas between them
            (default: 10%,25%,50%,75%).
        latency: Latencies of a fetch, beside the transmission of its page (default:
            500ns,1us,2us,3us,5us,10us,20us,50us).
        bandwidth: Rates of the link to remote memory (default: 10Gbps,25Gbps,40Gbps,100Gbps,200Gbps).
        repeat: Rounds of runs. The first round has one run at each injected delay; each further round has one
            at the smallest and one at the largest delay. There are three more native runs than rounds
            (default: 2).
        budget: Time limit of the whole command, such as 90s or 2m. If it is too short, runs are left out, a
            recorded run of lines ends early, and answers that need the missing runs are withheld. Remaining
            time goes into more runs where answers are too uncertain.
        out: Run folder: created, or continued if it has the same command (default: unrack-map).
        replace: Replace the run in that folder even if it is of another command.
    """
    return called(
        ["map"],
        {
            "--local": local,
            "--latency": latency,
            "--bandwidth": bandwidth,
            "--repeat": repeat,
            "--budget": budget,
            "--out": out,
            "--replace": replace,
        },
        [*command],
        lists={"--local": ",", "--latency": ",", "--bandwidth": ","},
        json_to="stdout",
        out="--out",
        trailing=True,
    )


def lines_calibrate(*, kept: bool = False) -> Result:
    """Measures caches, latencies and bandwidths of this machine, and keeps them until it restarts.

    Args:
        kept: Use the measurement that was kept since this machine started, if there is one.
    """
    return called(["lines", "calibrate"], {"--kept": kept}, json_to="stdout")


def lines_run(
    *command: Value,
    local: Value | None = None,
    placement: Value | None = None,
    seed: Value | None = None,
    once: bool = False,
) -> Result:
    """Runs a program natively and once under the recorder: misses, hot memory, and slowdown by latency of remote memory.

    Args:
        command: The program and its arguments.
        local: Memory that stays near: a share, or with `--placement first-touch`, `tiered` and `dram-cache` a
            size (default: 25%).
        placement: Rule by which pages come into local memory, for loads and stores: interleaved (in turns of
            their addresses), first-touch (until it is full), hottest (by the whole run), tiered (moved by
            use, as Linux does), dram-cache (local memory caches remote memory), all-remote, or remote:NAME
            (only memory of this name is remote, such as remote:[heap]) (default: interleaved).
        seed: Seed of the sample (default: 1).
        once: Do not run the program natively first; the model's time is then not checked against a native
            run.
    """
    return called(
        ["lines", "run"],
        {"--local": local, "--placement": placement, "--seed": seed, "--once": once},
        [*command],
        json_to="file",
        trailing=True,
    )


def lines_map(*command: Value, seed: Value | None = None) -> Result:
    """Runs a program natively and once under the recorder: slowdown by latency, share of local memory, and rule by which pages come there.

    Args:
        command: The program and its arguments.
        seed: Seed of the sample (default: 1).
    """
    return called(["lines", "map"], {"--seed": seed}, [*command], json_to="file", trailing=True)


def swap(
    *command: Value,
    local: Value | None = None,
    device: Value | None = None,
    repeat: Value | None = None,
    budget: Value | None = None,
    out: Value | None = None,
    replace: bool = False,
) -> Result:
    """Validates the predicted slowdown against the kernel's swap.

    Args:
        command: The program and its arguments.
        local: Memory that stays local: a share of the program's footprint, or a size (default: 25%).
        device: Device to swap to: zram, or a folder for a file to swap to (default: zram).
        repeat: Rounds of runs: the program runs once more than this under swap; its other runs are as in
            `unrack compare` (default: 2).
        budget: Time limit of the whole command, such as 90s or 2m. If it is too short, runs are left out, a
            recorded run of lines ends early, and answers that need the missing runs are withheld. Remaining
            time goes into more runs where answers are too uncertain.
        out: Run folder: created, or continued if it has the same command (default: unrack-swap).
        replace: Replace the run in that folder even if it is of another command.
    """
    return called(
        ["swap"],
        {
            "--local": local,
            "--device": device,
            "--repeat": repeat,
            "--budget": budget,
            "--out": out,
            "--replace": replace,
        },
        [*command],
        json_to="stdout",
        out="--out",
        trailing=True,
    )


def run(
    *command: Value,
    local: Value | None = None,
    latency: Value | None = None,
    bandwidth: Value | None = None,
    completions: Value | None = None,
    seed: Value | None = None,
    remote: Values | None = None,
    mirror: bool = False,
    keys: Value | None = None,
    insecure: bool = False,
    page_timeout: Value | None = None,
    capture: Value | None = None,
    fast: bool = False,
    read_ahead: Value | None = None,
    grace: Value | None = None,
    footprint: Value | None = None,
    no_cache: bool = False,
    pid: Value | None = None,
    tree: bool = False,
    for_: Value | None = None,
) -> Result:
    """Runs a program with part of its memory remote.

    Args:
        command: The program and its arguments.
        local: Memory that stays local: a share of the program's footprint, or a size (default: 25%).
        latency: Latency of a fetch, without the transmission of its page [default: 3us; with --remote, the
            real one].
        bandwidth: Rate of the link to remote memory in each direction [default: 100Gbps; with --completions,
            that of the file; with --remote, the real one].
        completions: Draw each fetch's time from this file, written by a simulation.
        seed: Seed of these draws (default: 1).
        remote: Keep remote pages at these memory nodes (see `unrack memory serve`), with commas between them:
            ADDRESS:PORT, or the path of a socket. Each page is at one of the nodes, so that their capacities
            add up.
        mirror: Keep each page at every node of --remote, so that the run goes on if nodes die, as long as one
            is left. A node that is silent for half of --page-timeout while another one answers counts as
            dead.
        keys: Encrypt with the keys of this folder, on loopback too [default: encrypt only beyond loopback,
            with the keys of the default folder; see `unrack keys`].
        insecure: Connect without encryption and without proof of identity, beyond loopback too.
        page_timeout: Report on stderr, every second, threads that wait longer than this for a page of a
            memory node, and end the program after six times as long (1s to 1h) (default: 5s).
        capture: Write every page transfer to this file (Parquet).
        fast: Handle faults in the faulting thread: faster, but Unrack ends a program that it cannot keep
            correct in this mode.
        read_ahead: Fetch up to N pages ahead (0 to 64) along the strides that a thread's faults show. Threads
            wait less, but `--capture` could not attribute the waits to threads (default: 0).
        grace: Time that background processes of CMD may continue after CMD has ended [default: 500ms].
        footprint: Footprint to which a share in --local refers. Unrack then does not measure it by a native
            run: for services, which do not end, and for programs that must not run twice.
        no_cache: Measure the footprint again.
        pid: Take memory from this running process instead of starting a program, and give it back in the end.
        tree: With --pid: take memory also from the processes that it started earlier.
        for_: Time after which memory is given back [default: when unrack is asked to end, or the process
            ends].
    """
    return called(
        ["run"],
        {
            "--local": local,
            "--latency": latency,
            "--bandwidth": bandwidth,
            "--completions": completions,
            "--seed": seed,
            "--remote": remote,
            "--mirror": mirror,
            "--keys": keys,
            "--insecure": insecure,
            "--page-timeout": page_timeout,
            "--capture": capture,
            "--fast": fast,
            "--read-ahead": read_ahead,
            "--grace": grace,
            "--footprint": footprint,
            "--no-cache": no_cache,
            "--pid": pid,
            "--tree": tree,
            "--for": for_,
        },
        [*command],
        lists={"--remote": ","},
        json_to="file",
        trailing=True,
    )


def memory_serve(
    *,
    listen: Value | None = None,
    shm: Value | None = None,
    capacity: Value,
    per_client: Value | None = None,
    silence: Value | None = None,
    keys: Value | None = None,
    insecure: bool = False,
) -> Result:
    """Holds pages for the programs that connect.

    Args:
        listen: Serve over TCP at this IPv4 address; port 0 takes one that is free.
        shm: Hand out shared memory through a socket at this path.
        capacity: Memory for all programs together.
        per_client: Maximum memory of one client with all its processes: a share or a size. A client is one
            key; without keys it is one address, or one user on a Unix socket. The default leaves room for
            another client (default: 50%).
        silence: Free the memory of a client that was silent for this time because it is stopped or cut off;
            0s waits for ever (default: 60s).
        keys: Encrypt with the keys of this folder, on loopback too [default: encrypt only beyond loopback,
            with the keys of the default folder; see `unrack keys`].
        insecure: Connect without encryption and without proof of identity, beyond loopback too.
    """
    return called(
        ["memory", "serve"],
        {
            "--listen": listen,
            "--shm": shm,
            "--capacity": capacity,
            "--per-client": per_client,
            "--silence": silence,
            "--keys": keys,
            "--insecure": insecure,
        },
        json_to="stdout",
    )


def memory_bench(
    node: Value | None = None, *, together: Value | None = None, pages: Value | None = None
) -> Result:
    """Measures latency and rate of a memory node for single, concurrent and batched requests.

    Args:
        node: Node to measure, at a loopback address; by default, one that this command starts.
        together: Pages in one batch of requests (default: 32).
        pages: Pages to read in each way (default: 100000).
    """
    return called(
        ["memory", "bench"],
        {"--together": together, "--pages": pages},
        [one for one in [node] if one is not None],
        json_to="stdout",
    )


def keys_make(folder: Value | None = None) -> Result:
    """Makes a key in a folder, and prints its fingerprint.

    Args:
        folder: The key folder [default: unrack/keys of $XDG_CONFIG_HOME or ~/.config].
    """
    return called(["keys", "make"], {}, [one for one in [folder] if one is not None])


def keys_show(folder: Value | None = None) -> Result:
    """Prints the key's fingerprint, and those that are trusted.

    Args:
        folder: The key folder [default: unrack/keys of $XDG_CONFIG_HOME or ~/.config].
    """
    return called(["keys", "show"], {}, [one for one in [folder] if one is not None], json_to="stdout")


def keys_trust(key: Value, *, name: Value | None = None, keys: Value | None = None) -> Result:
    """Trusts a key from now on, as a server and as a client.

    Args:
        key: .
        name: Name of the key, for people (default: ).
        keys: The key folder [default: unrack/keys of $XDG_CONFIG_HOME or ~/.config].
    """
    return called(["keys", "trust"], {"--name": name, "--keys": keys}, [key])


def keys_distrust(key: Value, *, keys: Value | None = None) -> Result:
    """Stops trusting a key.

    Args:
        key: .
        keys: The key folder [default: unrack/keys of $XDG_CONFIG_HOME or ~/.config].
    """
    return called(["keys", "distrust"], {"--keys": keys}, [key])


def keys_shared(file: Value) -> Result:
    """Makes a key that all machines of a live rack share, in a file.

    Args:
        file: .
    """
    return called(["keys", "shared"], {}, [file])


def pool_serve(
    *,
    socket: Value | None = None,
    capacity: Value | None = None,
    per_client: Value | None = None,
    backing: Value | None = None,
    device: Value | None = None,
    host: Value | None = None,
    host_name: Value | None = None,
    silence: Value | None = None,
    doorbell: Value | None = None,
    interleave: Value | None = None,
    memory: Value | None = None,
    region: Value | None = None,
    queue: Value | None = None,
    permissions: Value | None = None,
    until_idle: bool = False,
) -> Result:
    """Owns memory and hands it out to the programs that connect.

    Args:
        socket: Socket to which programs connect [default: unrack/pool.sock in $XDG_RUNTIME_DIR].
        capacity: Memory for all programs together, in sections of 2MiB; this much must be free at the start
            [default: that of an earlier pool that programs still use; else 1GiB, or half of the free memory
            if that is less].
        per_client: Maximum memory of one client: a size or a share. A client is a process with all its
            connections, or all processes of another user together. Half leaves room for the other side of
            each call [default: 50%, and at least 4MiB].
        backing: Kind of memory: `memfd`; or, for this user alone, `huge` (memfd of 2MiB pages) or a folder on
            tmpfs or hugetlbfs; or devices such as /dev/dax0.0, separated by commas, all of which every client
            can reach (default: memfd).
        device: Devices that hosts share, separated by commas, as `unrack pool format` formatted them.
        host: Number of this host; each kernel that shares the devices needs a different one.
        host_name: Name of this host, for people who look [default: the kernel's].
        silence: Time without a heartbeat of another host after which calls to it end [default: 3s].
        doorbell: Doorbell by which hosts wake each other's programs: the folder in /sys/bus/pci/devices of an
            ivshmem-doorbell that is bound to vfio-pci, or a link to it [default: programs look for each other
            by themselves].
        interleave: Bytes placed on one of several devices before the next (default: 4KiB).
        memory: Access to the memory: coherent, incoherent (lines are flushed), uncached, or model (for tests)
            (default: coherent).
        region: Maximum of sections leased at a time for small buffers (K) (default: 16).
        queue: Bytes of the queue area of each pair of programs (default: 64KiB).
        permissions: Users who may connect: permission bits of the socket, in octal (600 this user, 660 its
            group, 666 all) (default: 600).
        until_idle: End when no program has been connected for 10 s.
    """
    return called(
        ["pool", "serve"],
        {
            "--socket": socket,
            "--capacity": capacity,
            "--per-client": per_client,
            "--backing": backing,
            "--device": device,
            "--host": host,
            "--host-name": host_name,
            "--silence": silence,
            "--doorbell": doorbell,
            "--interleave": interleave,
            "--memory": memory,
            "--region": region,
            "--queue": queue,
            "--permissions": permissions,
            "--until-idle": until_idle,
        },
        json_to="stdout",
    )


def pool_format(
    devices: Value,
    *,
    hosts: Value | None = None,
    interleave: Value | None = None,
    memory: Value | None = None,
    queue: Value | None = None,
    force: bool = False,
) -> Result:
    """Prepares devices for hosts that share them.

    Args:
        devices: Devices such as /dev/dax0.0, the memory of a PCI device (/sys/bus/pci/devices/*/resource2),
            or files, separated by commas: what is in them is lost.
        hosts: Number of hosts that may share them, 1 to 16 (default: 4).
        interleave: Bytes placed on one of several devices before the next (default: 4KiB).
        memory: Access of all hosts to the memory: coherent, incoherent (lines are flushed), uncached, or
            model (for tests) (default: incoherent).
        queue: Bytes of the queue area of each pair of programs (default: 64KiB).
        force: Format the devices even if a host seems to serve them.
    """
    return called(
        ["pool", "format"],
        {
            "--hosts": hosts,
            "--interleave": interleave,
            "--memory": memory,
            "--queue": queue,
            "--force": force,
        },
        [devices],
        json_to="stdout",
    )


def pool_fence(host: Value, *, force: bool = False, socket: Value | None = None) -> Result:
    """Declares that a host is dead, which frees its sections.

    Args:
        host: Number of the host, as `unrack pool ls` lists it. Its power is off, or its virtual machine has
            ended: while it could still write, it would write into what others have by then.
        force: Declare it dead although its heartbeat moves: its manager then ends its programs, which may
            write into reused sections until they have ended.
        socket: Socket of the pool of this host [default: unrack/pool.sock in $XDG_RUNTIME_DIR].
    """
    return called(["pool", "fence"], {"--force": force, "--socket": socket}, [host])


def pool_ls(*, socket: Value | None = None) -> Result:
    """Lists the contents of a pool.

    Args:
        socket: Socket of the pool [default: unrack/pool.sock in $XDG_RUNTIME_DIR].
    """
    return called(["pool", "ls"], {"--socket": socket}, json_to="stdout")


def rack_up(
    scenario: Value,
    *,
    set: Values | None = None,
    machines: Values | None = None,
    here: Value | None = None,
    key: Value | None = None,
    insecure: bool = False,
    gateway: Values | None = None,
    state: Value | None = None,
) -> Result:
    """Builds the racks of a scenario on this machine.

    Args:
        scenario: The scenario file.
        set: Replace a value of the file.
        machines: UDP addresses of the machines that share the nodes, in the same order for all:
            10.0.0.1:7000,10.0.0.2:7000.
        here: Number of this machine among them, from 0.
        key: Key that all machines share, which authenticates datagrams: see `unrack keys shared`.
        insecure: Accept datagrams from beyond loopback without a key.
        gateway: Network device of this machine behind a node, such as 0=tap0; may be repeated.
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(
        ["rack", "up"],
        {
            "--set": set,
            "--machines": machines,
            "--here": here,
            "--key": key,
            "--insecure": insecure,
            "--gateway": gateway,
            "--state": state,
        },
        [scenario],
        lists={"--set": None, "--machines": ",", "--gateway": None},
    )


def rack_run(
    scenario: Value,
    *,
    set: Values | None = None,
    out: Value | None = None,
    replace: bool = False,
    state: Value | None = None,
) -> Result:
    """Sends a scenario's flows over a torus or mesh that is up, and prints their figures.

    Args:
        scenario: The scenario file; its network and fabric are those of the rack that is up.
        set: Replace a value of the file, such as workload.load=10%.
        out: Write summary and messages to this folder.
        replace: Replace the run in that folder even if it is of another scenario.
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(
        ["rack", "run"],
        {"--set": set, "--out": out, "--replace": replace, "--state": state},
        [scenario],
        lists={"--set": None},
        json_to="stdout",
        out="--out",
    )


def rack_exec(
    host: Value, *program: Value, tcp: bool = False, sockets: bool = False, state: Value | None = None
) -> Result:
    """Runs a program on a host, and exits with its status.

    Args:
        host: Number or name of the host.
        program: The program and its arguments.
        tcp: Leave the program's TCP sockets unchanged.
        sockets: Pass bytes between hosts of a rack by reference, if both programs were started with this
            option (see `unrack sockets`).
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(["rack", "exec"], {"--tcp": tcp, "--sockets": sockets, "--state": state}, [host, *program])


def rack_down(*, state: Value | None = None) -> Result:
    """Ends all programs on the hosts, and removes the racks.

    Args:
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(["rack", "down"], {"--state": state})


def rack_ls(*, state: Value | None = None) -> Result:
    """Lists the hosts that are virtual machines, with their state.

    Args:
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(["rack", "ls"], {"--state": state}, json_to="stdout")


def rack_kill(host: Value, *, state: Value | None = None) -> Result:
    """Kills a virtual machine, as a loss of power does; its programs end, and the shared memory stays.

    Args:
        host: Name or number of the host.
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(["rack", "kill"], {"--state": state}, [host])


def rack_stop(host: Value, *, state: Value | None = None) -> Result:
    """Stops the processors of a virtual machine, as if it hung.

    Args:
        host: Name or number of the host.
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(["rack", "stop"], {"--state": state}, [host])


def rack_cont(host: Value, *, state: Value | None = None) -> Result:
    """Continues a stopped virtual machine.

    Args:
        host: Name or number of the host.
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(["rack", "cont"], {"--state": state}, [host])


def rack_boot(host: Value, *, state: Value | None = None) -> Result:
    """Boots a virtual machine that is down.

    Args:
        host: Name or number of the host.
        state: Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp
            if you are not root].
    """
    return called(["rack", "boot"], {"--state": state}, [host])


def rpc_ls(*, socket: Value | None = None) -> Result:
    """Lists the services of a pool.

    Args:
        socket: Socket of the pool [default: unrack/pool.sock in $XDG_RUNTIME_DIR].
    """
    return called(["rpc", "ls"], {"--socket": socket}, json_to="stdout")


def rpc_bench(
    *,
    sizes: Values | None = None,
    windows: Values | None = None,
    connections: Values | None = None,
    rates: Values | None = None,
    memory: Value | None = None,
    waiting: Value | None = None,
    time: Value | None = None,
    rounds: Value | None = None,
    capacity: Value | None = None,
    serve: Value | None = None,
    pool: Value | None = None,
    hosts: Value | None = None,
) -> Result:
    """Measures calls between two processes on this machine.

    Args:
        sizes: Bytes of each request and of each answer (default: 64B,512B,4KiB,32KiB,256KiB,2MiB).
        windows: Calls in flight besides the one that the client waits for (default: 0,1,4,16).
        connections: Numbers of connections of one client, at the smallest size: with queues each, and sharing
            queues (default: 1,8,96).
        rates: Calls per second at which the server's use of the processor is measured, or `none` (default:
            0,1000,10000).
        memory: Access to memory: coherent, incoherent (lines are flushed), or model (for tests) (default:
            coherent).
        waiting: How client and server wait: spin, adaptive or sleep. Rates are always measured with adaptive
            (default: spin).
        time: Time for each figure; measurements of processor time take ten times as long (default: 100ms).
        rounds: Rounds of each figure: percentiles are over all rounds, calls per second are those of the
            median round (default: 3).
        capacity: Memory of the pool (default: 1GiB).
        serve: Serve the benchmark over the pool at this socket, until its manager ends: for a client on
            another host.
        pool: Call the benchmark that is served over the pool at this socket, on this host or another.
        hosts: Measure between two virtual machines of the rack that is up: server, client. Their device is
            formatted.
    """
    return called(
        ["rpc", "bench"],
        {
            "--sizes": sizes,
            "--windows": windows,
            "--connections": connections,
            "--rates": rates,
            "--memory": memory,
            "--waiting": waiting,
            "--time": time,
            "--rounds": rounds,
            "--capacity": capacity,
            "--serve": serve,
            "--pool": pool,
            "--hosts": hosts,
        },
        lists={"--sizes": ",", "--windows": ",", "--connections": ",", "--rates": ","},
        json_to="stdout",
    )


def rpc_check(
    *,
    pool: Value | None = None,
    calls: Value | None = None,
    streams: Value | None = None,
    seed: Value | None = None,
) -> Result:
    """Compares every byte of calls and streams, between processes or hosts that share a pool.

    Args:
        pool: Socket of this host's pool [default: unrack/pool.sock in $XDG_RUNTIME_DIR].
        calls: Calls to make (default: 10000).
        streams: Streams to open, of 1 to 20 parts each (default: 200).
        seed: Seed of sizes and contents (default: 1).
    """
    return called(
        ["rpc", "check"],
        {"--pool": pool, "--calls": calls, "--streams": streams, "--seed": seed},
        json_to="stdout",
    )


def sockets(
    *program: Value,
    socket: Value | None = None,
    capacity: Value | None = None,
    pool: Value | None = None,
    after: Value | None = None,
) -> Result:
    """Runs a program whose stream sockets pass bytes by reference.

    Args:
        program: The program and its arguments.
        socket: Socket of the broker [default: unrack/sockets.sock in $XDG_RUNTIME_DIR].
        capacity: Memory for all connections together: 10MiB each, of which connections touch little [default:
            half of the free memory].
        pool: Take the memory from the pool that is served at this socket.
        after: Calls after which a connection passes its bytes by reference [default: 16].
    """
    return called(
        ["sockets"],
        {"--socket": socket, "--capacity": capacity, "--pool": pool, "--after": after},
        [*program],
        json_to="stdout",
    )


def sockets_serve(
    *, socket: Value | None = None, capacity: Value | None = None, pool: Value | None = None
) -> Result:
    """Connects the ends of connections to each other, until SIGINT or SIGTERM.

    Args:
        socket: Socket of the broker [default: unrack/sockets.sock in $XDG_RUNTIME_DIR].
        capacity: Memory for all connections together: 10MiB each, of which connections touch little [default:
            half of the free memory].
        pool: Take the memory from the pool that is served at this socket.
    """
    return called(["sockets", "serve"], {"--socket": socket, "--capacity": capacity, "--pool": pool})


def phy_encode(file: Value | None = None, *, scrambled: bool = False) -> Result:
    """Lists the blocks of frames and messages, one a cycle.

    Args:
        file: File to read; stdin by default.
        scrambled: Scramble the payloads, as they are on the line.
    """
    return called(["phy", "encode"], {"--scrambled": scrambled}, [one for one in [file] if one is not None])


def phy_decode(file: Value | None = None, *, scrambled: bool = False, strict: bool = False) -> Result:
    """Reads such a list, and shows the frames and messages in it.

    Args:
        file: File to read; stdin by default.
        scrambled: The payloads are scrambled, as they are on the line.
        strict: Memory messages had priority, instead of taking turns with a frame.
    """
    return called(
        ["phy", "decode"],
        {"--scrambled": scrambled, "--strict": strict},
        [one for one in [file] if one is not None],
    )


def phy_trace(
    file: Value | None = None,
    *,
    nodes: Value | None = None,
    chunk: Value | None = None,
    strict: bool = False,
    wire: Value | None = None,
    cycles: Value | None = None,
    pcap: Value | None = None,
    vcd: Value | None = None,
    fst: Value | None = None,
    svg: Value | None = None,
) -> Result:
    """Runs requests and frames through nodes and a switch, and lists what crosses each link.

    Args:
        file: File to read; stdin by default.
        nodes: Nodes at the switch (default: 2).
        chunk: Bytes that one grant allows (default: 256).
        strict: Memory messages have priority, instead of taking turns with a frame.
        wire: Cycles that a block takes between two PCS (default: 0).
        cycles: Cycles after which the run stops, even if messages are still in flight (default: 100000).
        pcap: Write messages and frames to a capture.
        vcd: Write the blocks of each link as waveforms.
        fst: Write the same waveforms as fast signal trace (FST), which is much smaller.
        svg: Draw the blocks of each link as SVG, around the blocks of memory messages.
    """
    return called(
        ["phy", "trace"],
        {
            "--nodes": nodes,
            "--chunk": chunk,
            "--strict": strict,
            "--wire": wire,
            "--cycles": cycles,
            "--pcap": pcap,
            "--vcd": vcd,
            "--fst": fst,
            "--svg": svg,
        },
        [one for one in [file] if one is not None],
    )


def sim(
    scenario: Value,
    *,
    set: Values | None = None,
    out: Value | None = None,
    replace: bool = False,
    fail_if: Value | None = None,
    transfers: Value | None = None,
    threads: Value | None = None,
    ports: Value | None = None,
    every: Value | None = None,
    pcap: Value | None = None,
    perfetto: Value | None = None,
    only: Value | None = None,
    explain: Value | None = None,
) -> Result:
    """Simulates a scenario.

    Args:
        scenario: The scenario file, or - for standard input.
        set: Replace a value of the file, such as network.link.rate=400Gbps.
        out: Write summary and tables to this folder.
        replace: Replace the run in that folder even if it is of another scenario.
        fail_if: Exit with status 1 if this expression over the summary holds, such as 'slowdown.p99>3' or
            'completed<messages or completion_ns.p99>5us'; a missing value makes it hold.
        transfers: Maximum of transfers to replay from a captured trace, over all its copies, from the middle
            of the run (default: 10000000).
        threads: Threads over which to split the run, by racks; the results are the same (default: 1).
        ports: Write utilization and queues of links over time to this Parquet file.
        every: Interval of --ports (default: 10us).
        pcap: Write packets to this capture (pcapng), for Wireshark.
        perfetto: Write packets over time to this file, for ui.perfetto.dev.
        only: Packets that --pcap and --perfetto take: message=N, node=N or port=N.
        explain: Print a breakdown of this message's time; messages count from 0.
    """
    return called(
        ["sim"],
        {
            "--set": set,
            "--out": out,
            "--replace": replace,
            "--fail-if": fail_if,
            "--transfers": transfers,
            "--threads": threads,
            "--ports": ports,
            "--every": every,
            "--pcap": pcap,
            "--perfetto": perfetto,
            "--only": only,
            "--explain": explain,
        },
        [scenario],
        lists={"--set": None},
        json_to="stdout",
        out="--out",
    )


def sweep(
    scenario: Value,
    *,
    set: Values | None = None,
    seeds: Value | None = None,
    out: Value | None = None,
    replace: bool = False,
    part: Value | None = None,
    cluster: Value | None = None,
    threads: Value | None = None,
    fail_if: Value | None = None,
    transfers: Value | None = None,
) -> Result:
    """Simulates a scenario over a grid of values, on all cores.

    Args:
        scenario: The scenario file, or - for standard input.
        set: Replace a value of the file, or try each of a list.
        seeds: Run every point with each of these seeds, such as 1.5 or 1,2,7.
        out: Keep points and write the table (sweep.json, sweep.parquet) and charts (sweep-mean.svg,
            sweep-p99.svg) to this folder.
        replace: Replace the table in that folder even if it has points that this grid lacks.
        part: Run one part of the points, such as the second of four, and keep them; `unrack sweep merge`
            makes the table.
        cluster: Run the points on the workers of this scheduler of Dask, such as tcp://10.0.0.1:8786; the
            results are the same.
        threads: Maximum of points run at once; by default, the number of cores.
        fail_if: Exit with status 1 if this expression over the summary holds, such as 'slowdown.p99>3' or
            'completed<messages or completion_ns.p99>5us'; a missing value makes it hold.
        transfers: Maximum of transfers to replay from a captured trace, over all its copies, from the middle
            of the run (default: 10000000).
    """
    return called(
        ["sweep"],
        {
            "--set": set,
            "--seeds": seeds,
            "--out": out,
            "--replace": replace,
            "--part": part,
            "--cluster": cluster,
            "--threads": threads,
            "--fail-if": fail_if,
            "--transfers": transfers,
        },
        [scenario],
        lists={"--set": None},
        json_to="stdout",
        out="--out",
    )


def sweep_merge(
    *parts: Value, out: Value | None = None, replace: bool = False, fail_if: Value | None = None
) -> Result:
    """Makes the table of a sweep from parts that were run separately.

    Args:
        parts: Folders of the parts.
        out: Write points, table and charts to this folder, as `unrack sweep` does.
        replace: Replace another run in that folder, and the table of a sweep with points that this one lacks.
        fail_if: Exit with status 1 if this expression over the summary holds, such as 'slowdown.p99>3' or
            'completed<messages or completion_ns.p99>5us'; a missing value makes it hold.
    """
    return called(
        ["sweep", "merge"],
        {"--out": out, "--replace": replace, "--fail-if": fail_if},
        [*parts],
        json_to="stdout",
        out="--out",
    )


def study_list() -> Result:
    """Lists the studies."""
    return called(["study", "list"], {})


def study_run(
    *names: Value,
    quick: bool = False,
    costs: Value | None = None,
    out: Value | None = None,
    replace: bool = False,
    seeds: Value | None = None,
    store: Value | None = None,
) -> Result:
    """Runs studies, and writes their page.

    Args:
        names: Studies as `unrack study list` names them, or `all` for all that do not measure this machine.
        quick: Run fewer points and messages, which takes seconds.
        costs: Simulate studies that use a machine's costs a second time, with the costs that
            `bench/sockets.sh --costs FILE` measured.
        out: Write results to this folder, and take finished points from it (default: runs/studies).
        replace: Replace the page in that folder even if it shows studies that this run lacks.
        seeds: Run every point with this number of seeds; figures are means, with 95 % intervals (default: 1).
        store: Also write our values to this file, as those that later runs must keep.
    """
    return called(
        ["study", "run"],
        {
            "--quick": quick,
            "--costs": costs,
            "--out": out,
            "--replace": replace,
            "--seeds": seeds,
            "--store": store,
        },
        [*names],
        json_to="stdout",
        out="--out",
    )


def study_check(*names: Value, quick: bool = False, out: Value | None = None) -> Result:
    """Breaks mechanisms on purpose, and lists the rows of studies that notice.

    Args:
        names: Studies as `unrack study list` names them; by default, all that do not measure this machine.
        quick: Run fewer points and messages, which takes seconds.
        out: Write results to this folder, and take finished points from it (default: runs/studies-check).
    """
    return called(
        ["study", "check"], {"--quick": quick, "--out": out}, [*names], json_to="stdout", out="--out"
    )


def scenario_check(file: Value, *, set: Values | None = None) -> Result:
    """Checks whether a scenario can be run, and estimates the memory of the run.

    Args:
        file: The scenario file, or - for standard input.
        set: Replace a value of the file.
    """
    return called(["scenario", "check"], {"--set": set}, [file], lists={"--set": None})


def scenario_explain(file: Value, *, set: Values | None = None) -> Result:
    """Prints a scenario with every value and its origin.

    Args:
        file: The scenario file, or - for standard input.
        set: Replace a value of the file.
    """
    return called(["scenario", "explain"], {"--set": set}, [file], lists={"--set": None})


def scenario_draw(file: Value, *, set: Values | None = None) -> Result:
    """Prints a picture of the scenario's network as SVG.

    Args:
        file: The scenario file, or - for standard input.
        set: Replace a value of the file.
    """
    return called(["scenario", "draw"], {"--set": set}, [file], lists={"--set": None})


def schema() -> Result:
    """Prints the JSON Schema of scenarios, for editors."""
    return called(["schema"], {})


def diff(a: Value, b: Value) -> Result:
    """Compares two run folders, and shows which differences exceed the noise.

    Args:
        a: A run folder.
        b: The run folder to compare it with.
    """
    return called(["diff"], {}, [a, b], json_to="stdout")


def report(*folders: Value, output: Value | None = None, svg: Value | None = None) -> Result:
    """Makes one HTML page from run folders.

    Args:
        folders: Run folders, in the order of the page.
        output: Write the page to this file.
        svg: Write every figure to this folder as SVG, and as Vega-Lite specification (.vl.json) to restyle
            it.
    """
    return called(["report"], {"--output": output, "--svg": svg}, [*folders])


def doctor(*verbs: Value) -> Result:
    """Lists the verbs that can run on this machine, and the requirements that are missing for the others.

    Args:
        verbs: The verbs to check; by default, all. One of compare, map, run, lines, swap, rack, rpc, sockets,
            sim, sweep, docs.
    """
    return called(["doctor"], {}, [*verbs], json_to="stdout")


def docs(*, print: bool = False) -> Result:
    """Opens the documentation.

    Args:
        print: Print the path of the first page, and open nothing.
    """
    return called(["docs"], {"--print": print})


def man(folder: Value) -> Result:
    """Writes manual pages.

    Args:
        folder: Folder of the pages; created if absent.
    """
    return called(["man"], {}, [folder])
