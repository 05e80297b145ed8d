-- Dissects the memory messages of captures that `unrack phy trace --pcap` writes: LINKTYPE_USER0, 66-bit blocks
-- whose layout is in crates/sim/phy/src/edm/layout.rs.
--
--   wireshark -X lua_script:examples/wireshark/unrack-edm.lua run.pcapng
--
-- Captures of `unrack sim` are LINKTYPE_USER0 too: load unrack.lua for those instead.

local edm = Proto("edm", "EDM memory message")

local kinds = { [0] = "RREQ", "WREQ", "RMWREQ", "RRES" }
local types = { [0x2e] = "/MS/", [0x65] = "/MT/", [0x84] = "/MST/", [0xb7] = "/N/", [0xd1] = "/G/" }
local opcodes = { [0] = "compare and swap", "fetch and add", "swap" }

local kind = ProtoField.uint8("edm.kind", "Kind", base.DEC, kinds)
local first = ProtoField.uint8("edm.type", "Block type", base.HEX, types)
local last = ProtoField.bool("edm.last", "Last chunk")
local node = ProtoField.uint16("edm.node", "Other end")
local id = ProtoField.uint8("edm.id", "Message id")
local size = ProtoField.uint16("edm.size", "Bytes")
local opcode = ProtoField.uint16("edm.opcode", "Operation", base.DEC, opcodes)
local address = ProtoField.uint64("edm.address", "Address", base.HEX)
local data = ProtoField.bytes("edm.data", "Data")
local blocks = ProtoField.uint16("edm.blocks", "Blocks")
edm.fields = { kind, first, last, node, id, size, opcode, address, data, blocks }

local RECORD, BLOCK = 4, 9

-- Bits from `at` on of the payload whose first byte is at `start`.
local function field(buffer, start, at, width)
    return buffer(start, 8):le_uint64():rshift(at):band(UInt64(2 ^ width - 1)):tonumber()
end

-- The body of a message: two bytes of its start, eight of each data block, six of its end.
local function body(buffer, count)
    local bytes = ByteArray.new()
    bytes:append(buffer(RECORD + 7, 2):bytes())
    for block = 1, count - 2 do
        bytes:append(buffer(RECORD + block * BLOCK + 1, 8):bytes())
    end
    bytes:append(buffer(RECORD + (count - 1) * BLOCK + 2, 6):bytes())
    return bytes:tvb("Body")
end

function edm.dissector(buffer, pinfo, tree)
    local count = (buffer:captured_len() - RECORD) / BLOCK
    if count < 1 or count % 1 ~= 0 or buffer(0, 2):string() ~= "UE" or buffer(2, 1):uint() ~= 1 then
        return 0
    end
    local payload = RECORD + 1
    local block = buffer(payload, 1):uint()
    local what = field(buffer, payload, 8, 2)
    local other, number = field(buffer, payload, 11, 9), field(buffer, payload, 20, 8)
    local name = (types[block] or "?") .. " " .. kinds[what]

    local header = tree:add(edm, buffer(), "EDM " .. name)
    header:add(first, buffer(payload, 1))
    header:add(kind, buffer(payload + 1, 1), what)
    header:add(last, buffer(payload + 1, 1), field(buffer, payload, 10, 1) == 1)
    header:add(node, buffer(payload + 1, 2), other)
    header:add(id, buffer(payload + 2, 2), number)
    header:add(blocks, count)
    pinfo.cols.protocol = "EDM"
    local info = name .. " node " .. other .. " id " .. number

    if block == 0x84 and what == 0 then
        local bytes = field(buffer, payload, 28, 8) + 1
        local from = buffer(payload, 8):le_uint64():rshift(36):band(UInt64(0xfffff)):lshift(6)
        header:add(size, buffer(payload + 3, 2), bytes)
        header:add(address, buffer(payload + 4, 3), from)
        info = info .. ", " .. bytes .. " B at 0x" .. from:tohex()
    elseif block == 0x84 then
        local bytes = field(buffer, payload, 28, 2)
        header:add(size, buffer(payload + 3, 1), bytes)
        if bytes > 0 then
            header:add(data, buffer(payload + 4, bytes))
        end
        info = info .. ", " .. bytes .. " B"
    else
        local number_of = field(buffer, payload, 28, 16)
        if block == 0x2e and what == 2 then
            header:add(opcode, buffer(payload + 3, 3), number_of)
            info = info .. ", " .. (opcodes[number_of] or "unknown operation")
        else
            header:add(size, buffer(payload + 3, 3), number_of)
            info = info .. ", " .. number_of .. " B"
        end
        if block == 0x2e and count > 1 then
            local whole = body(buffer, count)
            local from, length = 0, number_of
            if what ~= 3 then
                header:add_le(address, whole(0, 8))
                info = info .. " at 0x" .. whole(0, 8):le_uint64():tohex()
                from = 8
            end
            if what == 1 or what == 3 then
                header:add(data, whole(from, math.min(length, whole:len() - from)))
            elseif what == 2 then
                header:add(data, whole(8, number_of == 0 and 16 or 8))
            end
        end
    end
    pinfo.cols.info = info
    return buffer:captured_len()
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, edm)
