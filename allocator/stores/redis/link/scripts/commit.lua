-- generation, writer, number of fields, the fields; then the words of each op:
--
--   o packed record                       offer
--   g fence, deadline, claim part         grant; has two fields: record, claim
--   n fence, deadline                     renew
--   r, u, e fence, deadline as known      release, undo, expire
--   l fence, reason                       lose
--   w, f                                  withdraw, forget
--
-- No two ops have a field in common. Answered is a digit for each; where there
-- is one only, its number, or the record that an expiry met. What an op
-- leaves is met by those behind it: of claims only, that one has ended.
local ARGV, unpack = ARGV, unpack
local writer, last = ARGV[2], ARGV[3] + 3
local v = call('HMGET', hash, 'g', 'q', unpack(ARGV, 4, last))
if v[1] ~= ARGV[1] then
    return STALE
end
-- Texts: a number becomes one slowly.
local OK, NOT_FOUND, ALREADY_EXISTS, TAKEN = '0', '2', '3', '4'
local ABORTED, FAILED_PRECONDITION, CORRUPT = '5', '6', '8'
-- What is written and what goes; and for the feed.
local kept, n_kept, gone, n_gone, ended = {}, 0, nil, 0, nil
local changes, n_changes = {}, 0
local results, n_results = {}, 0
local at, i, n = 3, last + 1, #ARGV
while i <= n do
    local kind, old, field = ARGV[i], v[at], ARGV[at + 1]
    local head = old and sub(old, 1, 2)
    local result, new = OK, nil
    at = at + 1
    if kind == 'g' then
        local fence = ARGV[i + 1]
        if v[at] and not (ended and ended[ARGV[at + 1]]) then
            result = ALREADY_EXISTS
        elseif not old then
            result = NOT_FOUND
        elseif head ~= '11' then
            result = TAKEN
        elseif fence <= sub(old, 3, 22) then
            result = ABORTED
        else
            new = '12' .. fence .. ARGV[i + 2] .. sub(old, 43) .. ARGV[i + 3]
            kept[n_kept + 1] = ARGV[at + 1]
            n_kept = n_kept + 2
            kept[n_kept] = field
        end
        at = at + 1
        i = i + 4
    elseif kind == 'o' then
        if not old then
            new = ARGV[i + 1]
        elseif head ~= '11' then
            result = TAKEN
        end
        i = i + 2
    elseif kind == 'w' or kind == 'f' then
        if not old then
            result = kind == 'f' and OK or NOT_FOUND
        elseif head == '12' or head == '13' then
            result = TAKEN
        elseif kind == 'f' then
            gone = gone or {}
            n_gone = n_gone + 1
            gone[n_gone] = field
        elseif head ~= '14' then
            new = '14' .. sub(old, 3)
        end
        i = i + 1
    else
        local fence, word = ARGV[i + 1], ARGV[i + 2]
        local known = old and sub(old, 3, 22)
        if head == '12' or head == '13' then
            if fence > known then
                result = NOT_FOUND
            elseif fence < known then
                result = kind == 'e' and field .. old or ABORTED
            elseif kind == 'n' then
                if head == '13' then
                    result = FAILED_PRECONDITION
                -- A renewal that comes late shortens nothing.
                elseif word > sub(old, 23, 42) then
                    new = '12' .. known .. word .. sub(old, 43)
                end
            elseif kind == 'l' then
                if head == '12' then
                    new = '13' .. sub(old, 3, -4) .. word
                end
            elseif kind ~= 'r' and sub(old, 23, 42) ~= word then
                result = kind == 'e' and field .. old or ABORTED
            else
                local part = tonumber(sub(old, 43, 45))
                local length = part and
                               tonumber(sub(old, 46 + part, 48 + part))
                if length then
                    new = (kind == 'u' and head == '12' and '11' or '14') ..
                          known .. '00000000000000000000' ..
                          sub(old, 43, 45 + part)
                    local claim = 'c' .. sub(old, 49 + part,
                                             48 + part + length)
                    gone, ended = gone or {}, ended or {}
                    n_gone = n_gone + 1
                    gone[n_gone] = claim
                    ended[claim] = true
                else
                    result = CORRUPT
                end
            end
        elseif head ~= '11' or kind ~= 'u' or fence ~= known then
            result = NOT_FOUND
        end
        i = i + 3
    end
    if new then
        kept[n_kept + 1] = field
        n_kept = n_kept + 2
        kept[n_kept] = new
    elseif kind == 'f' and result == OK and old then
        new = '10' .. sub(old, 3)
    end
    if new then
        changes[n_changes + 1] = field
        n_changes = n_changes + 3
        changes[n_changes] = new
    end
    n_results = n_results + 1
    results[n_results] = result
end
local number
if n_changes > 0 and writer ~= '' then
    local q = (v[2] or 0) + 1
    number = string.format('%020d', q)
    kept[n_kept + 1] = 'q'
    n_kept = n_kept + 2
    kept[n_kept] = n_changes == 3 and number or
                   string.format('%020d', q + n_changes / 3 - 1)
end
if n_gone > 0 then
    call('HDEL', hash, unpack(gone))
end
if n_kept > 0 then
    call('HSET', hash, unpack(kept))
end
if number then
    if n_changes == 3 then
        changes = '1' .. writer .. number .. sub(changes[1], 2) .. changes[3]
    else
        -- Most records are as long as others.
        local lengths = {}
        for k = 3, n_changes, 3 do
            local length = #changes[k]
            local text = lengths[length]
            if not text then
                text = string.format('%04d', length)
                lengths[length] = text
            end
            changes[k - 1] = text
        end
        changes = '2' .. writer .. number .. table.concat(changes)
    end
    redis.pcall('PUBLISH', hash .. ':feed', changes)
end
if n_results == 1 then
    return tonumber(results[1]) or results[1]
end
return table.concat(results)
