-- generation, record's field, writer, claim's field, fence, deadline,
-- claim part
local field, claim = ARGV[2], ARGV[4]
local v = call('HMGET', hash, 'g', field, 'q', claim)
if v[1] ~= ARGV[1] then
    return STALE
end
if v[4] then
    return ALREADY_EXISTS
end
local old, fence = v[2], ARGV[5]
if not old then
    return NOT_FOUND
end
if sub(old, 1, 2) ~= '11' then
    return TAKEN
end
if fence <= sub(old, 3, 22) then
    return ABORTED
end
local writer = ARGV[3]
local new = '12' .. fence .. ARGV[6] .. sub(old, 43) .. ARGV[7]
if writer == '' then
    call('HSET', hash, field, new, claim, field)
    return OK
end
local n = string.format('%020d', (v[3] or 0) + 1)
call('HSET', hash, field, new, claim, field, 'q', n)
redis.pcall('PUBLISH', hash .. ':feed', '1' .. writer .. n .. sub(field, 2) ..
            new)
return OK
