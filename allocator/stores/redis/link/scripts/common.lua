-- Stands before every script. What commits do is said in pool/leases/rules.h,
-- how records look in allocator/stores/codec.h, the fields of the hash in
-- allocator/stores/redis/store.h. Fences and deadlines are texts of one length and are
-- compared as such: a Lua number is a double.
--
-- What shrinks the hash is written first: Redis refuses the first write of a
-- script when memory is full, but none after it, so leases can still end.
local OK, STALE, NOT_FOUND, ALREADY_EXISTS = 0, 1, 2, 3
local TAKEN, ABORTED, FAILED_PRECONDITION, PENDING, CORRUPT = 4, 5, 6, 7, 8
local call, sub = redis.call, string.sub
local hash = KEYS[1]
