-- generation, record's field, writer, fence, kind (n: renew, r: release,
-- u: undo, e: expire, l: lose), deadline (n: new, e: as known) or reason (l)
local field, fence, kind = ARGV[2], ARGV[4], ARGV[5]
local v = call('HMGET', hash, 'g', field, 'q')
if v[1] ~= ARGV[1] then
    return STALE
end
local old = v[2]
if not old then
    return NOT_FOUND
end
local head, known = sub(old, 1, 2), sub(old, 3, 22)
local lost = head == '13'
if head == '12' or lost then
    if fence > known then
        return NOT_FOUND
    end
    if fence < known then
        return kind == 'e' and field .. old or ABORTED
    end
elseif head == '11' and kind == 'u' and fence == known then
    return OK
else
    return NOT_FOUND
end
local new, claim
if kind == 'n' then
    if lost then
        return FAILED_PRECONDITION
    end
    -- A renewal that comes late shortens nothing.
    if ARGV[6] <= sub(old, 23, 42) then
        return OK
    end
    new = '12' .. known .. ARGV[6] .. sub(old, 43)
elseif kind == 'l' then
    if lost then
        return OK
    end
    new = '13' .. sub(old, 3, -4) .. ARGV[6]
else
    if kind ~= 'r' and sub(old, 23, 42) ~= ARGV[6] then
        return kind == 'e' and field .. old or ABORTED
    end
    local part = tonumber(sub(old, 43, 45))
    local length = part and tonumber(sub(old, 46 + part, 48 + part))
    if not length then
        return CORRUPT
    end
    claim = 'c' .. sub(old, 49 + part, 48 + part + length)
    new = (kind == 'u' and not lost and '11' or '14') .. known ..
          '00000000000000000000' .. sub(old, 43, 45 + part)
    call('HDEL', hash, claim)
end
local writer = ARGV[3]
if writer == '' then
    call('HSET', hash, field, new)
    return OK
end
local n = string.format('%020d', (v[3] or 0) + 1)
call('HSET', hash, field, new, 'q', n)
redis.pcall('PUBLISH', hash .. ':feed', '1' .. writer .. n .. sub(field, 2) ..
            new)
return OK
