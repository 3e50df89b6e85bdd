-- generation, record's field, writer, packed record
local field = ARGV[2]
local v = call('HMGET', hash, 'g', field, 'q')
if v[1] ~= ARGV[1] then
    return STALE
end
if v[2] then
    return sub(v[2], 1, 2) == '11' and OK or TAKEN
end
local writer, record = ARGV[3], ARGV[4]
if writer == '' then
    call('HSET', hash, field, record)
    return OK
end
local n = string.format('%020d', (v[3] or 0) + 1)
call('HSET', hash, field, record, 'q', n)
redis.pcall('PUBLISH', hash .. ':feed', '1' .. writer .. n .. sub(field, 2) ..
            record)
return OK
