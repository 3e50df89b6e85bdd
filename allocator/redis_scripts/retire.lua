-- generation, record's field, writer, kind (w: withdraw, f: forget)
local field, forget = ARGV[2], ARGV[4] == 'f'
local v = call('HMGET', hash, 'g', field, 'q')
if v[1] ~= ARGV[1] then
    return STALE
end
local old = v[2]
if not old then
    return forget and OK or NOT_FOUND
end
local head = sub(old, 1, 2)
if head == '12' or head == '13' then
    return TAKEN
end
if head == '14' and not forget then
    return OK
end
local writer = ARGV[3]
local new = (forget and '10' or '14') .. sub(old, 3)
local n = string.format('%020d', (v[3] or 0) + 1)
if forget then
    call('HDEL', hash, field)
    if writer ~= '' then
        call('HSET', hash, 'q', n)
    end
elseif writer ~= '' then
    call('HSET', hash, field, new, 'q', n)
else
    call('HSET', hash, field, new)
end
if writer ~= '' then
    redis.pcall('PUBLISH', hash .. ':feed', '1' .. writer .. n ..
                sub(field, 2) .. new)
end
return OK
