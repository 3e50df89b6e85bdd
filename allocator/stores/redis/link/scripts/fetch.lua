-- generation, field of the record or of the claim
local field = ARGV[2]
local v = call('HMGET', hash, 'g', field)
if v[1] ~= ARGV[1] then
    return STALE
end
local record = v[2]
if record and sub(field, 1, 1) == 'c' then
    field = record
    record = call('HGET', hash, field)
end
return record and field .. record or NOT_FOUND
