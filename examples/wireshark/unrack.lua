-- Dissects the packets of captures that `unrack sim --pcap` writes for fabrics other than TCP and DCTCP:
-- LINKTYPE_USER0, a header of 48 bytes, laid out in crates/sim/sim/src/observe/wire/plain.rs.
--
--   wireshark -X lua_script:examples/wireshark/unrack.lua run.pcapng
--
-- or copy this file to the folder "Personal Lua Plugins" of Wireshark's Help > About > Folders.

local unrack = Proto("unrack", "Unrack packet")

local kinds = {
    [0] = "data", "request", "ack", "nack", "header", "notification", "grant", "pause", "congestion",
}

local version = ProtoField.uint8("unrack.version", "Version")
local kind = ProtoField.uint8("unrack.kind", "Kind", base.DEC, kinds)
local flags = ProtoField.uint8("unrack.flags", "Flags", base.HEX)
local marked = ProtoField.bool("unrack.flags.marked", "Marked for congestion", 8, nil, 1)
local echo = ProtoField.bool("unrack.flags.echo", "Tells of marks", 8, nil, 2)
local has_offset = ProtoField.bool("unrack.flags.has_offset", "Says an offset", 8, nil, 4)
local has_message = ProtoField.bool("unrack.flags.has_message", "Belongs to a message", 8, nil, 8)
local priority = ProtoField.uint8("unrack.priority", "Priority")
local message = ProtoField.uint32("unrack.message", "Message")
local src = ProtoField.uint32("unrack.src", "From node")
local dst = ProtoField.uint32("unrack.dst", "To node")
local wire = ProtoField.uint32("unrack.wire", "Bytes on the wire")
local payload = ProtoField.uint32("unrack.payload", "Bytes of payload")
local offset = ProtoField.uint64("unrack.offset", "Offset")
local fabric = ProtoField.string("unrack.fabric", "Fabric")

unrack.fields = {
    version, kind, flags, marked, echo, has_offset, has_message, priority, message, src, dst, wire, payload,
    offset, fabric,
}

local HEADER = 48

function unrack.dissector(buffer, pinfo, tree)
    if buffer:captured_len() < HEADER or buffer(0, 2):string() ~= "UR" or buffer(2, 1):uint() ~= 1 then
        return 0
    end
    local set = buffer(4, 1):uint()
    local name = buffer(36, 12):stringz()
    local what = kinds[buffer(3, 1):uint()] or "unknown"
    local from, to = buffer(12, 4):uint(), buffer(16, 4):uint()

    local header = tree:add(unrack, buffer(0, HEADER), "Unrack " .. name .. " packet: " .. what)
    header:add(version, buffer(2, 1))
    header:add(kind, buffer(3, 1))
    local bits = header:add(flags, buffer(4, 1))
    bits:add(marked, buffer(4, 1))
    bits:add(echo, buffer(4, 1))
    bits:add(has_offset, buffer(4, 1))
    bits:add(has_message, buffer(4, 1))
    header:add(priority, buffer(5, 1))
    if set % 16 >= 8 then
        header:add(message, buffer(8, 4))
    end
    header:add(src, buffer(12, 4))
    header:add(dst, buffer(16, 4))
    header:add(wire, buffer(20, 4))
    header:add(payload, buffer(24, 4))
    if set % 8 >= 4 then
        header:add(offset, buffer(28, 8))
    end
    header:add(fabric, buffer(36, 12), name)

    pinfo.cols.protocol = name
    pinfo.cols.src = "node " .. from
    pinfo.cols.dst = "node " .. to
    local info = what
    if set % 16 >= 8 then
        info = info .. " of message " .. buffer(8, 4):uint()
    end
    if set % 8 >= 4 then
        info = info .. " at " .. tostring(buffer(28, 8):uint64())
    end
    if buffer(24, 4):uint() > 0 then
        info = info .. ", " .. buffer(24, 4):uint() .. " B"
    end
    pinfo.cols.info = info
    return HEADER
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, unrack)
