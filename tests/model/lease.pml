/* tests/model/lease.pml - the life of a lease, for the model checker Spin.
 *
 * Two allocators (replicas of warmpoold) and two clients share one lease store.
 * Messages to the store may be lost, delayed past a timeout or the death of
 * their sender, and repeated; so may its answers be lost. Allocators die and
 * come back with empty hands at any moment. Spin visits every state that this
 * can lead to and checks, in each:
 *
 *   S   What a client holds (it was shown the lease, has not released it, its
 *       deadline has not passed) the store holds too: for this claim, by this
 *       fence, at least as long; and the keeper has not destroyed the sandbox.
 *   I1  No two clients hold one sandbox.
 *   I2  No claim has two sandboxes.
 *   I3  No sandbox is shown that another lease has had, or that is destroyed.
 *   I5  The fences of a sandbox grow.
 *
 * How to read it: commit() is pool/leases/rules.h, row by row. allocator() is
 * what a replica does on top of it; keep() what only the keeper does. Each
 * switch BREAK_... takes one rule away: tests/model/run.sh shows that each of
 * them is needed, because without it Spin finds a violation.
 *
 * What makes it small enough to be visited whole:
 *   - An allocator's memory of a record (its copy) is not stored. It reads
 *     the store's record when it sends; whatever it knew earlier, it could have
 *     sent earlier, and any message may be as late as it likes. So a stale
 *     copy is an early message, and FETCH is that reading.
 *   - Each allocator has one message under way, and beside these there is one
 *     straggler: a delayed or repeated message that nobody waits for any more.
 *   - A sandbox has FENCES leases at most, a lease DEADLINES deadlines at most;
 *     more of them repeat what these have shown. Deadlines are numbers
 *     that pass in order: when does not matter, only before or after what.
 *   - The store itself is never wrong: acknowledged writes stay.
 *
 * IN_THE_END checks what must come about, instead, when every process that can
 * go on does so in the end (weak fairness):
 *
 *   L1  A call is answered: granted, refused, or in doubt.
 *   L2  A lease that is over, and is not renewed just in time, leads to a
 *       sandbox that is claimable or destroyed.
 *   L3  So does a sandbox that a dead keeper has left without a record.
 *
 * There, clients make CALLS calls and FAULTS faults happen, which is when
 * nobody waits any more: for ever, they could keep anything from happening.
 * Each switch STOP_... takes a step away that one of them needs.
 *
 * A replica that took back what another may have shown would be safe only by
 * the renewals in serve(). The daemon does less: with a shared store it takes
 * nothing back, and so shows leases of others from its copy.
 *
 * Bounds (run.sh has several sets of them): 2 allocators, CLIENTS claim ids,
 * each used again and again, SANDBOXES sandboxes (uids), of which each is
 * created, used and forgotten once. */

#ifndef SANDBOXES
#define SANDBOXES 2
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef FENCES
#define FENCES 2
#endif
#ifndef DEADLINES
#define DEADLINES 3
#endif

#ifdef IN_THE_END
#ifndef CALLS
#define CALLS 3
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
unsigned calls : 3 = CALLS;
unsigned faults : 2 = FAULTS;
#define is_called calls > 0 ->calls--;
#define strikes faults > 0 ->faults--;
#else
#define is_called true ->
#define strikes true ->
#endif

/* ---- The store ---- */

/* enum wp_record_state */
#define NONE 0
#define OPEN 1
#define HELD 2
#define LOST 3
#define ENDED 4

typedef record {
    unsigned state : 3;
    unsigned fence : 2;
    unsigned claim : 2; /* Who holds it, from 1; 0 unless HELD or LOST. */
    unsigned deadline : 2;
}
record rec[SANDBOXES];

#define claimed(s) (rec[s].state == HELD || rec[s].state == LOST)

/* enum wp_lease_op_kind; FETCH is a reading of rec. */
#define NO_OP 0
#define OFFER 1
#define GRANT 2
#define RENEW 3
#define RELEASE 4
#define UNDO 5
#define EXPIRE 6
#define WITHDRAW 7
#define LOSE 8
#define FORGET 9

typedef message {
    unsigned op : 4;
    unsigned s : 1;
    unsigned fence : 2;
    unsigned claim : 2;
    unsigned deadline : 2;
}

/* What the store answers, as far as anybody acts on it. */
#define OK 0
#define NO 1     /* NOT_FOUND, ABORTED, TAKEN, FAILED_PRECONDITION */
#define EXISTS 2 /* ALREADY_EXISTS: the claim has another sandbox. */

/* ---- The world ---- */

#define UNBORN 0
#define ALIVE 1
#define DEAD 2      /* It died by itself; its backend knows. */
#define DESTROYED 3 /* By the keeper. */

typedef sandbox {
    unsigned body : 2;
    unsigned passed : 2; /* This deadline of its lease, and those before. */
    /* Only for the properties: */
    unsigned fence_max : 2; /* Of all leases it ever had. */
    unsigned used : 1;      /* Some client was shown a lease of it. */
}
sandbox box[SANDBOXES];

/* ---- Clients ---- */

#define TO_CLAIM 0
#define TO_RELEASE 1

typedef client {
    unsigned asks : 2; /* The allocator that works on its call, from 1. */
    unsigned what : 1; /* CLAIM, or RELEASE of its token. */
    unsigned holds : 1; /* It believes that it holds the lease of its token. */
    unsigned has_token : 1;
    unsigned s : 1;
    unsigned fence : 2;
    unsigned deadline : 2;
}
client cl[CLIENTS];

/* ---- Allocators ---- */

#define IDLE 0
#define SENT 1
#define ANSWERED 2

typedef replica {
    unsigned phase : 2;
    unsigned answer : 2;
    message m;
    unsigned serves : 2; /* The client whose call this is for, from 1. */
}
replica al[2];

message late; /* The straggler; op NO_OP: none. */

/* Who has the lock of the sandbox directory, from 1. When its owner dies, the
 * kernel gives it to the other or to itself come back; that nobody has it for a
 * while is the same as a keeper that does nothing. */
unsigned keeper : 2 = 1;
#ifdef STOP_TAKE_OVER
bit keeps = 1;
#else
#define keeps true
#endif
/* The keeper made this sandbox itself and has not seen its offer confirmed. */
unsigned made : SANDBOXES;

/* ---- Properties ---- */

#define sound(c)                                                               \
    (!cl[c].holds ||                                                           \
     (claimed(cl[c].s) && rec[cl[c].s].claim == c + 1 &&                       \
      rec[cl[c].s].fence == cl[c].fence &&                                     \
      rec[cl[c].s].deadline >= cl[c].deadline &&                               \
      box[cl[c].s].body != DESTROYED))

inline check()
{
    assert(sound(0)); /* S */
#if CLIENTS > 1
    assert(sound(1));
    assert(!(cl[0].holds && cl[1].holds && cl[0].s == cl[1].s)); /* I1 */
#endif
#if SANDBOXES > 1
    /* I2 */
    assert(!(claimed(0) && claimed(1) && rec[0].claim == rec[1].claim));
#endif
}

/* ---- The rules: one commit, atomic ---- */

/* The claim has a record already, this one or another. */

#define leads_to(c, at) (claimed(at) && rec[at].claim == c)
#if SANDBOXES > 1
#define has_lease(c) (leads_to(c, 0) || leads_to(c, 1))
#else
#define has_lease(c) leads_to(c, 0)
#endif

#ifdef BREAK_FENCE
#define same_fence(msg) true
#else
#define same_fence(msg) (msg.fence == rec[msg.s].fence)
#endif
#ifdef BREAK_EXPIRE
#define not_renewed(msg) true
#else
#define not_renewed(msg) (msg.deadline == rec[msg.s].deadline)
#endif
#ifdef BREAK_UNDO
#define not_shown(msg) true
#else
#define not_shown(msg) (msg.deadline == rec[msg.s].deadline)
#endif

inline set_ended(at, new_state)
{
    rec[at].state = new_state;
    rec[at].claim = 0;
    rec[at].deadline = 0
}

inline commit(msg, result)
{
    result = NO;
    if
    :: msg.op == OFFER ->
        if
        :: rec[msg.s].state == NONE ->
            rec[msg.s].state = OPEN;
            rec[msg.s].fence = 0;
            result = OK
        :: rec[msg.s].state == OPEN -> result = OK
#ifdef BREAK_OFFER
        :: rec[msg.s].state == ENDED -> rec[msg.s].state = OPEN; result = OK
#endif
        :: else
        fi
    :: msg.op == GRANT ->
        if
#if !defined(BREAK_LOOKUP) && !defined(BREAK_REPEAT)
        :: has_lease(msg.claim) -> result = EXISTS
#endif
        :: else ->
            if
#ifdef BREAK_GRANT
            :: rec[msg.s].state == OPEN ->
#else
            :: rec[msg.s].state == OPEN && msg.fence > rec[msg.s].fence ->
#endif
                assert(!box[msg.s].used);                 /* I3 */
                assert(msg.fence > box[msg.s].fence_max); /* I5 */
                box[msg.s].fence_max = msg.fence;
                box[msg.s].passed = 0;
                rec[msg.s].state = HELD;
                rec[msg.s].fence = msg.fence;
                rec[msg.s].claim = msg.claim;
                rec[msg.s].deadline = msg.deadline;
                result = OK
#ifdef BREAK_REPEAT
            :: rec[msg.s].state == HELD && rec[msg.s].claim == msg.claim &&
               rec[msg.s].fence == msg.fence -> result = OK
#endif
            :: else
            fi
        fi
    :: msg.op == RENEW && rec[msg.s].state == HELD && same_fence(msg) ->
        if
#ifdef BREAK_RENEW
        :: true -> rec[msg.s].deadline = msg.deadline
#else
        :: msg.deadline > rec[msg.s].deadline ->
            rec[msg.s].deadline = msg.deadline
        :: else
#endif
        fi;
        result = OK
    :: msg.op == RELEASE && claimed(msg.s) && same_fence(msg) ->
        set_ended(msg.s, ENDED);
        result = OK
    :: msg.op == EXPIRE && claimed(msg.s) && same_fence(msg) &&
       not_renewed(msg) ->
        set_ended(msg.s, ENDED);
        result = OK
    :: msg.op == UNDO && rec[msg.s].state == HELD && same_fence(msg) &&
       not_shown(msg) ->
        set_ended(msg.s, OPEN);
        result = OK
    :: msg.op == UNDO && rec[msg.s].state == LOST && same_fence(msg) &&
       not_shown(msg) ->
        set_ended(msg.s, ENDED);
        result = OK
    :: msg.op == WITHDRAW &&
       (rec[msg.s].state == OPEN || rec[msg.s].state == ENDED) ->
        rec[msg.s].state = ENDED;
        result = OK
    :: msg.op == LOSE && claimed(msg.s) && same_fence(msg) ->
        rec[msg.s].state = LOST;
        result = OK
    :: msg.op == FORGET && !claimed(msg.s) ->
        rec[msg.s].state = NONE;
        rec[msg.s].fence = 0;
        result = OK
    :: else
    fi
}

/* ---- Processes ---- */

inline copy(from, to)
{
    to.op = from.op;
    to.s = from.s;
    to.fence = from.fence;
    to.claim = from.claim;
    to.deadline = from.deadline
}

inline clear(msg)
{
    msg.op = NO_OP;
    msg.s = 0;
    msg.fence = 0;
    msg.claim = 0;
    msg.deadline = 0
}

/* It could still change something: to an ended lease only an offer could. */
#ifdef NO_STRAGGLER
#define may_matter(msg) false
#else
#define may_matter(msg)                                                        \
    (msg.op == OFFER || rec[msg.s].state == OPEN || claimed(msg.s))
#endif

/* A message that is under way stays behind as the straggler, or is lost. What
 * was executed may come again: its sender, or a link between, sent it twice. */
inline leave_behind(msg)
{
    if
    :: late.op == NO_OP && may_matter(msg) -> copy(msg, late)
    :: true
    fi
}

inline send(a, kind, at, its_fence, its_claim, its_deadline)
{
    al[a].m.op = kind;
    al[a].m.s = at;
    al[a].m.fence = its_fence;
    al[a].m.claim = its_claim;
    al[a].m.deadline = its_deadline;
    al[a].phase = SENT
}

inline rest(a)
{
    clear(al[a].m);
    al[a].phase = IDLE;
    al[a].answer = OK;
    al[a].serves = 0
}

/* The client that the message is for still waits for the answer. One that gave
 * up and asks again is another call: it is served anew, from the store, because
 * the old answer may be of a lease that has ended since. */
#define listens(a)                                                             \
    (al[a].serves != 0 && cl[al[a].serves - 1].asks == a + 1)

/* The call of client c is over. */
inline end_call(c)
{
    cl[c].asks = 0
}

inline drop_token(c)
{
    cl[c].holds = 0;
    cl[c].has_token = 0;
    cl[c].s = 0;
    cl[c].fence = 0;
    cl[c].deadline = 0;
    cl[c].what = TO_CLAIM
}

inline hand_over(c, at, its_fence, its_deadline)
{
    end_call(c);
    cl[c].has_token = 1;
    cl[c].s = at;
    cl[c].fence = its_fence;
    cl[c].deadline = its_deadline;
    if
    :: its_deadline > box[at].passed ->
        cl[c].holds = 1;
        box[at].used = 1
    :: else -> cl[c].holds = 0 /* It came too late to be of use. */
    fi;
    check()
}

#define holds_at(c, at) (rec[at].state == HELD && rec[at].claim == c + 1)

inline ask(a, c, kind, at, its_fence, its_deadline)
{
    send(a, kind, at, its_fence, 0, its_deadline);
    al[a].serves = c + 1;
    cl[c].asks = a + 1
}

/* A call of client c comes to an allocator that can take it; what comes when it
 * cannot, or when there is nothing to give, is refused and changes nothing. */
inline serve(a, c, at)
{
    if
    /* A new claim: any sandbox that looks ready. The store sees to it that the
     * claim has no other one, whatever this allocator knows. */
    :: cl[c].what == TO_CLAIM && !cl[c].has_token && rec[at].state == OPEN &&
       rec[at].fence < FENCES ->
        ask(a, c, GRANT, at, rec[at].fence + 1, 1);
        al[a].m.claim = c + 1
    /* A claim that is known to have a lease, by the copy or by FETCH, or one
     * whose client asks for more time. It is the same answer again, but not
     * before a renewal has made sure that it still is its lease, and has told
     * so to whoever would undo it. */
#ifdef BREAK_CONFIRM
    :: cl[c].what == TO_CLAIM && !cl[c].has_token && holds_at(c, at) ->
        hand_over(c, at, rec[at].fence, rec[at].deadline)
#else
    :: cl[c].what == TO_CLAIM && !cl[c].has_token && holds_at(c, at) &&
       rec[at].deadline < DEADLINES ->
        ask(a, c, RENEW, at, rec[at].fence, rec[at].deadline + 1)
#endif
    :: cl[c].holds && cl[c].s == at && cl[c].deadline < DEADLINES ->
        ask(a, c, RENEW, at, cl[c].fence, cl[c].deadline + 1)
    /* From the moment it says so, the client does not use the sandbox. */
    :: cl[c].has_token && cl[c].s == at ->
        cl[c].holds = 0;
        cl[c].what = TO_RELEASE;
        ask(a, c, RELEASE, at, cl[c].fence, 0)
    :: else
    fi
}

/* An answer that changes nothing but what its reader may do next has the same
 * effect whenever it comes, so it comes at once. A claim that was told to look
 * again looks again: as if it came again. */
inline answered(a)
{
    if
    :: al[a].answer == OK && al[a].m.op == GRANT -> al[a].phase = ANSWERED
    :: al[a].answer == OK && al[a].m.op == RENEW && listens(a) ->
        al[a].phase = ANSWERED
    :: else ->
        if
        :: al[a].m.op == OFFER -> made = made & ~(1 << al[a].m.s)
        :: al[a].m.op == RELEASE && listens(a) ->
            end_call(al[a].serves - 1);
            drop_token(al[a].serves - 1)
        :: al[a].m.op != RELEASE && listens(a) -> end_call(al[a].serves - 1)
        :: else
        fi;
        rest(a)
    fi
}

inline receive(a)
{
    if
    :: listens(a) ->
        hand_over(al[a].serves - 1, al[a].m.s, al[a].m.fence, al[a].m.deadline);
        rest(a)
    /* Nobody has been shown this lease here: it is taken back. */
    :: !listens(a) && al[a].m.op == GRANT ->
        al[a].m.op = UNDO;
        al[a].m.claim = 0;
        al[a].serves = 0;
        al[a].phase = SENT
    :: else -> rest(a)
    fi
}

/* No answer: the outcome is unknown. The caller is told so, and the sandbox
 * stays out of use here until the store has been asked what became of it. */
inline lose_touch(a)
{
    if
    :: al[a].phase == SENT -> leave_behind(al[a].m)
    :: else
    fi;
    if
#ifdef BREAK_UNKNOWN_GRANT
    :: listens(a) && al[a].m.op == GRANT ->
        hand_over(al[a].serves - 1, al[a].m.s, al[a].m.fence, al[a].m.deadline)
#endif
#ifndef STOP_DOUBT
    :: listens(a) -> end_call(al[a].serves - 1)
#endif
#ifdef BREAK_UNKNOWN_WITHDRAW
    :: al[a].m.op == WITHDRAW ->
        box[al[a].m.s].body = DESTROYED;
        check()
#endif
    :: else
    fi;
    rest(a)
}

inline execute(a)
{
    commit(al[a].m, al[a].answer);
    check();
    leave_behind(al[a].m);
    answered(a)
}

/* Takes what comes, in any order. */
active proctype store()
{
    unsigned ignored : 2;
end:
    do
    :: atomic { al[0].phase == SENT -> execute(0) }
    :: atomic { al[1].phase == SENT -> execute(1) }
    :: atomic {
        late.op != NO_OP ->
        commit(late, ignored);
        check();
        clear(late);
        ignored = 0
    }
    :: atomic { late.op != NO_OP -> clear(late) } /* Or it never arrives. */
    od
}

#define free(a, c) (al[a].phase == IDLE && cl[c].asks == 0)

proctype allocator(bit me)
{
end:
    do
    :: atomic { free(me, 0) && is_called serve(me, 0, 0) }
#if SANDBOXES > 1
    :: atomic { free(me, 0) && is_called serve(me, 0, 1) }
#endif
#if CLIENTS > 1
    :: atomic { free(me, 1) && is_called serve(me, 1, 0) }
#if SANDBOXES > 1
    :: atomic { free(me, 1) && is_called serve(me, 1, 1) }
#endif
#endif
    :: atomic { al[me].phase == ANSWERED -> receive(me) }
    :: atomic { al[me].phase != IDLE && strikes lose_touch(me) }
    /* It dies, and is there again with nothing in its memory. */
    :: atomic {
        strikes
        if
        :: al[me].phase == SENT -> leave_behind(al[me].m)
        :: else
        fi;
        rest(me);
        if
#ifdef STOP_HANG_UP
        :: false
#else
        :: cl[0].asks == me + 1 -> end_call(0)
#endif
        :: else
        fi;
#if CLIENTS > 1
        if
        :: cl[1].asks == me + 1 -> end_call(1)
        :: else
        fi;
#endif
        if
        :: keeper == me + 1 ->
            made = 0;
#ifdef STOP_TAKE_OVER
            keeps = 0;
#endif
            if
            :: keeper = 1
            :: keeper = 2
            fi
        :: else
        fi
    }
    od
}

/* No offer of this sandbox is under way any more: the keeper has the answer to
 * its own, and what a dead keeper may have left has had its time. */
#ifdef BREAK_FORGET
#define quiet(at) true
#else
#define quiet(at) (!(late.op == OFFER && late.s == at))
#endif

#define is_made(at) ((made >> at) & 1)
#define me (keeper - 1)
#define free_hands (keeps && al[keeper - 1].phase == IDLE)

/* What the keeper does with one sandbox, beside serving calls. */
proctype keep(bit s)
{
end:
    do
    :: atomic {
        keeps && box[s].body == UNBORN ->
        box[s].body = ALIVE;
        made = made | (1 << s)
    }
    :: atomic {
        free_hands && is_made(s) && box[s].body == ALIVE ->
        send(me, OFFER, s, 0, 0, 0)
    }
    /* Left by a keeper that died before it was offered. */
#ifndef STOP_SWEEP
    :: atomic {
        keeps && rec[s].state == NONE && !is_made(s) && quiet(s) &&
        (box[s].body == ALIVE || box[s].body == DEAD) ->
        box[s].body = DESTROYED
    }
#endif
    /* Idle for long, or dead. */
    :: atomic {
        free_hands && rec[s].state == OPEN -> send(me, WITHDRAW, s, 0, 0, 0)
    }
#ifndef STOP_EXPIRE
    :: atomic {
        free_hands && claimed(s) && box[s].passed >= rec[s].deadline ->
        send(me, EXPIRE, s, rec[s].fence, 0, rec[s].deadline)
    }
#endif
    :: atomic {
        free_hands && rec[s].state == HELD && box[s].body == DEAD ->
        send(me, LOSE, s, rec[s].fence, 0, 0)
    }
#ifndef STOP_DESTROY
    :: atomic {
        keeps && rec[s].state == ENDED && box[s].body != DESTROYED ->
        box[s].body = DESTROYED;
        made = made & ~(1 << s);
        check()
    }
#endif
    :: atomic {
        free_hands && rec[s].state == ENDED && box[s].body == DESTROYED &&
        quiet(s) -> send(me, FORGET, s, 0, 0, 0)
    }
#ifdef BREAK_RESTART
    :: atomic {
        free_hands && rec[s].state == ENDED && box[s].body == ALIVE &&
        !is_made(s) ->
        made = made | (1 << s);
        send(me, FORGET, s, 0, 0, 0)
    }
#endif
    od
}
#undef me

proctype user(bit c)
{
end:
    do
#ifndef IN_THE_END
    :: atomic { cl[c].asks != 0 -> end_call(c) } /* It does not wait. */
#endif
    /* It restarts, and knows its claim id only. But who has asked for a release
     * asks until it is confirmed: it may not claim by that id before. */
    :: atomic {
        cl[c].asks == 0 && cl[c].has_token && cl[c].what == TO_CLAIM ->
        drop_token(c)
    }
    od
}

inline lapse(c, at)
{
    if
    :: cl[c].holds && cl[c].s == at && cl[c].deadline <= box[at].passed ->
        cl[c].holds = 0
    :: else
    fi
}

/* Time and death. */
proctype world(bit s)
{
end:
    do
    :: atomic {
        claimed(s) && box[s].passed < rec[s].deadline ->
        box[s].passed++;
        lapse(0, s);
#if CLIENTS > 1
        lapse(1, s)
#endif
    }
#ifdef DEATH
    :: atomic { box[s].body == ALIVE -> box[s].body = DEAD }
#endif
    od
}

init
{
    atomic {
        run allocator(0);
        run allocator(1);
        run keep(0);
        run world(0);
        run user(0);
#if CLIENTS > 1
        run user(1);
#endif
#if SANDBOXES > 1
        run keep(1);
        run world(1)
#endif
    }
}

#ifdef IN_THE_END
#define is_over (claimed(0) && box[0].passed >= rec[0].deadline)
#define is_renewed (claimed(0) && box[0].passed < rec[0].deadline)
#define is_usable (rec[0].state == OPEN || box[0].body == DESTROYED)
#define is_left (rec[0].state == NONE && !is_made(0) && box[0].body == ALIVE)

ltl replied { [] (cl[0].asks != 0 -> <> (cl[0].asks == 0)) } /* L1 */
ltl reclaimed { [] (is_over -> <> (is_usable || is_renewed)) } /* L2 */
ltl swept { [] (is_left -> <> (rec[0].state != NONE ||
                               box[0].body == DESTROYED)) } /* L3 */
#endif
