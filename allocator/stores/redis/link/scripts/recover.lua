-- kind, then by kind:
--   init    a generation to take if the pool has none; answers "g" as it is
--   begin   a new generation, "c" and one not to join, this server process;
--           answers "g" as it is then
--   assert  generation, record's field, writer, packed record, claim's field
--           or ""; "last" when it is not told again
--   end     generation, replica
--   ended   generation, replica
--   open    generation, replicas...
local kind = ARGV[1]
local g = call('HGET', hash, 'g')
if kind == 'init' then
    if not g then
        g = 'o' .. ARGV[2]
        call('HSET', hash, 'g', g)
    end
    return g
end
if kind == 'begin' then
    -- Closed already: whoever closed it is joined. Open: nobody knows yet that
    -- something was lost; or it was recovered without this replica, and has to
    -- be closed again for what this one knows. Closed at another process, it is
    -- a copy: replicas that had restored may know more since.
    if not g or sub(g, 1, 1) == 'o' or g == ARGV[3] or
        (call('HGET', hash, 's') or '') ~= ARGV[4] then
        g = 'c' .. ARGV[2]
        call('HSET', hash, 'g', g, 's', ARGV[4])
        redis.pcall('PUBLISH', hash .. ':feed', g)
    end
    return g
end
local generation = ARGV[2]
if kind == 'open' and g == 'o' .. generation then
    return OK
end
if g ~= 'c' .. generation then
    return STALE
end
-- When the lease of a claimed record was granted; '' when it has none.
local function granted(record)
    local part = tonumber(sub(record, 43, 45))
    local key = part and tonumber(sub(record, 46 + part, 48 + part))
    return key and sub(record, 49 + part + key, 68 + part + key) or ''
end
-- The same sandbox, over.
local function ended(record)
    return '14' .. sub(record, 3, 22) .. string.rep('0', 20) ..
           sub(record, 43, 45 + (tonumber(sub(record, 43, 45)) or 0))
end
if kind == 'assert' then
    local field, writer, new, claim = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
    local v = call('HMGET', hash, field, 'q', claim)
    local old = v[1]
    local rival, loser
    if claim ~= '' and v[3] and v[3] ~= field then
        if ARGV[7] ~= 'last' then
            return ALREADY_EXISTS
        end
        -- A claim has one lease at a time: the one that was granted later. Both
        -- replicas hear which sandbox is nobody's any more.
        rival = call('HGET', hash, v[3]) or ''
        if granted(rival) < granted(new) then
            loser = granted(rival) ~= '' and ended(rival)
        else
            new, claim = ended(new), ''
            writer = string.rep('0', #writer)
        end
    end
    local gone
    if old then
        -- Fence, then state: OPEN < HELD < LOST < ENDED, then deadline.
        local a = sub(old, 3, 22) .. sub(old, 2, 2)
        local b = sub(new, 3, 22) .. sub(new, 2, 2)
        if a > b or (a == b and sub(old, 23, 42) > sub(new, 23, 42)) then
            return ABORTED
        end
        if old == new then
            return OK
        end
        local head = sub(old, 1, 2)
        if head == '12' or head == '13' then
            local part = tonumber(sub(old, 43, 45))
            local length = part and tonumber(sub(old, 46 + part, 48 + part))
            if not length then
                return CORRUPT
            end
            gone = 'c' .. sub(old, 49 + part, 48 + part + length)
            -- One fence, two claims: the one that Redis has stays.
            if sub(old, 3, 22) == sub(new, 3, 22) and claim ~= '' and
                claim ~= gone then
                return ABORTED
            end
        end
    end
    if gone and gone ~= claim then
        call('HDEL', hash, gone)
    end
    if loser then
        v[2] = (v[2] or 0) + 1
        call('HSET', hash, v[3], loser)
        redis.pcall('PUBLISH', hash .. ':feed',
                    '1' .. string.rep('0', #writer) ..
                    string.format('%020d', v[2]) .. sub(v[3], 2) .. loser)
    end
    local n = string.format('%020d', (v[2] or 0) + 1)
    if claim ~= '' then
        call('HSET', hash, field, new, 'q', n, claim, field)
    else
        call('HSET', hash, field, new, 'q', n)
    end
    if writer ~= '' then
        redis.pcall('PUBLISH', hash .. ':feed', '1' .. writer .. n ..
                    sub(field, 2) .. new)
    end
    return OK
end
-- "a" is the generation and the replicas that have ended their assertions.
local restored = call('HGET', hash, 'a')
if not restored or sub(restored, 1, #generation) ~= generation then
    restored = generation
end
if kind == 'end' then
    if not string.find(restored, ARGV[3], #generation + 1, true) then
        call('HSET', hash, 'a', restored .. ',' .. ARGV[3])
    end
    return OK
end
for i = 3, #ARGV do
    if not string.find(restored, ARGV[i], #generation + 1, true) then
        return PENDING
    end
end
if kind == 'ended' then
    return OK
end
call('HDEL', hash, 'a', 's')
call('HSET', hash, 'g', 'o' .. generation)
return OK
