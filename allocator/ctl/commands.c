/* The table of commands and their help. */
#include "allocator/ctl/commands.h"

#include "pool/base/compiler.h"

#define NAMES(...) ((const char *const[]){__VA_ARGS__ NULL})

const struct wp_ctl_command wp_ctl_commands[] = {
    {"claim", "POOL", "Lease a sandbox that is ready",
     "Leases a ready sandbox of POOL (or NAMESPACE/POOL) and prints where it\n"
     "answers. The lease ends after --ttl unless it is renewed. Its token is\n"
     "remembered for release, renew, exec and cp. The same --id again gets "
     "the\n"
     "same lease, so that a claim whose answer was lost can be repeated.\n"
     "\n"
     "With --env, --secret, --copy, --skill, --repo, --volume, --workdir,\n"
     "--egress, --identity or --run the sandbox has all of that before the\n"
     "answer, or the claim fails and says what is not there. Variables are\n"
     "of the commands that are run in it from then on. All but volumes is\n"
     "gone at the end of the lease.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl claim agents\n"
     "  warmpoolctl claim agents --ttl 30m --wait 10s\n"
     "  warmpoolctl claim agents --env CI=1 --secret-env TOKEN=@token.txt\n"
     "  warmpoolctl claim agents --copy app.py:app.py --run -- python3 app.py\n"
     "  warmpoolctl claim agents --copy ./app:app --skill ./pdf\n"
     "  warmpoolctl claim agents --repo https://git.example.com/team/app@main\n"
     "  id=$(warmpoolctl claim agents --output name)\n"
     "  warmpoolctl claim agents -n 8 --all-or-nothing --id job-7\n",
     NAMES("id", "ttl", "wait", "tenant", "count", "all-or-nothing", "env",
           "secret", "secret-env", "copy", "archive", "skill", "repo", "volume",
           "repo-password", "sources", "workdir", "egress", "identity",
           "run", ),
     1, 1, false, WP_SUBJECT_POOL, wp_cmd_claim},
    {"release", "ID...", "End leases and destroy their sandboxes",
     "Ends the leases of the claims. A sandbox that was used is destroyed,\n"
     "never given to anybody else. Releasing twice does no harm.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl release job-7-1 job-7-2\n"
     "  warmpoolctl release $(warmpoolctl list --output name)\n"
     "  warmpoolctl release job-7 --token-file lease.json\n",
     NAMES("token", "token-file", ), 1, WP_BATCH_MAX, false, WP_SUBJECT_CLAIM,
     wp_cmd_release},
    {"renew", "ID", "Set a lease's end to --ttl from now",
     "Moves the end of the claim's lease to --ttl from now (the pool's "
     "default\n"
     "without it). With --hold the end may be beyond the longest lease, as far "
     "as\n"
     "the pool's hold-max allows.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl renew job-7 --ttl 1h\n"
     "  warmpoolctl renew job-7 --hold --ttl 8h\n",
     NAMES("ttl", "hold", "token", "token-file", ), 1, 1, false,
     WP_SUBJECT_CLAIM, wp_cmd_renew},
    {"get", "ID", "Show one claim",
     "Shows what the daemon knows of a claim, and if its sandbox was lost, "
     "why.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl get job-7\n"
     "  warmpoolctl get job-7 --output json\n",
     NAMES("tenant", ), 1, 1, false, WP_SUBJECT_CLAIM, wp_cmd_get},
    {"list", "", "List the live claims",
     "Lists the claims that are held or waiting.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl list\n"
     "  warmpoolctl list --pool agents --output name\n",
     NAMES("pool", "tenant", ), 0, 0, false, WP_SUBJECT_NONE, wp_cmd_list},
    {"exec", "ID [options] [--] COMMAND [ARG...]",
     "Run a command in a claim's sandbox",
     "Runs COMMAND in the sandbox that claim ID holds. Standard input, output\n"
     "and error are those of warmpoolctl; SIGINT, SIGTERM, SIGHUP and SIGQUIT\n"
     "are passed on. A second SIGINT ends warmpoolctl, and the command with\n"
     "it. There is no terminal.\n"
     "\n"
     "Exits with the command's own code, with 128 + N when signal N ended it,\n"
     "or with: 124 --time-limit was over, 125 warmpoolctl or the daemon "
     "failed\n"
     "(no such claim, nobody answers), 126 the command cannot be run, 127\n"
     "there is no such command.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl exec job-7 -- python3 -c 'print(6 * 7)'\n"
     "  warmpoolctl exec job-7 -- sh -c 'cat > notes.txt' < notes.txt\n"
     "  tar c src | warmpoolctl exec job-7 -- tar x\n"
     "  warmpoolctl exec job-7 --time-limit 30s --env CI=1 -- make test\n",
     NAMES("cwd", "env", "time-limit", "no-stdin", "tenant", "token",
           "token-file", ),
     1, 1, true, WP_SUBJECT_CLAIM, wp_cmd_exec},
    {"cp", "SRC DST", "Copy a file into or out of a sandbox",
     "Copies one file; one side is ID:PATH, the other a path here or - for\n"
     "standard input or output. PATH is in the sandbox's workspace; when it "
     "is\n"
     "empty or ends with /, the file keeps its name. Directories: see the tar\n"
     "example of exec.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl cp data.csv job-7:data.csv\n"
     "  warmpoolctl cp job-7:out/report.pdf .\n"
     "  warmpoolctl cp job-7:log.txt - | less\n",
     NAMES("tenant", "token", "token-file", ), 2, 2, false, WP_SUBJECT_FILE,
     wp_cmd_cp},
    {"pools", "[POOL]", "Show the pools and how full they are",
     "Shows every pool, or one. STATE is full, filling, short (below its\n"
     "target with no sandbox on its way), failing (sandboxes fail to become\n"
     "ready; the reason is printed below) or draining.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl pools\n"
     "  warmpoolctl pools agents --output json\n",
     NAMES(), 0, 1, false, WP_SUBJECT_POOL, wp_cmd_pools},
    {"tenants", "[POOL]", "Show what each tenant has and may have",
     "Shows the leases, the waiting claims and the claims of each tenant of\n"
     "every pool, or of one, and beside each what it may have at most. Admins\n"
     "see all tenants, others their own. A tenant is active, and its share of\n"
     "the ready sandboxes is kept, while it has claimed within the last\n"
     "minute. REFUSED counts the claims beyond a bound.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl tenants\n"
     "  warmpoolctl tenants agents --tenant ci --output json\n",
     NAMES("tenant", ), 0, 1, false, WP_SUBJECT_POOL, wp_cmd_tenants},
    {"trust", "[URL]", "Show which instruction files are trusted, or forget",
     "Shows what the instruction files of repositories were when tenants "
     "first\n"
     "brought them (the daemon's setting git_trust). --forget removes the\n"
     "records of URL, of all tenants or of --tenant: what the next claim "
     "brings\n"
     "is trusted. No daemon is asked: it needs the right to read and change\n"
     "the daemon's state directory on this machine.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl trust\n"
     "  warmpoolctl trust https://git.example.com/team/app --forget\n",
     NAMES("tenant", "state-dir", "forget", ), 0, 1, false, WP_SUBJECT_NONE,
     wp_cmd_trust},
    {"scale", "POOL N", "Change how many sandboxes a pool keeps ready",
     "Sets the pool's target until the next change, or until the daemon gets\n"
     "SIGHUP or restarts. Scaling down destroys idle sandboxes, never leased\n"
     "ones. Needs the admin right.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl scale agents 16\n",
     NAMES(), 2, 2, false, WP_SUBJECT_POOL, wp_cmd_scale},
    {"set", "POOL", "Change a pool's target or its scaling policy",
     "Changes what the options name, and shows the new policy. When one value\n"
     "is wrong, nothing changes. The change lasts until the next one, or "
     "until\n"
     "the daemon gets SIGHUP or restarts. The keys are those of the\n"
     "annotations; see warmpool-autoscale(7). Needs the admin right.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl set agents --autoscale objective=99.9% --autoscale "
     "max=500\n"
     "  warmpoolctl set agents -s 'schedule=0 8 * * 1-5 for 10h at least 20'\n"
     "  warmpoolctl set agents -s schedule= --target 16\n",
     NAMES("target", "autoscale", ), 1, 1, false, WP_SUBJECT_POOL, wp_cmd_set},
    {"create", "[POOL]", "Add a pool",
     "Adds a pool: POOL of a template that the daemon has, or what --file "
     "says.\n"
     "The daemon keeps it for later starts, until it is deleted. In a cluster\n"
     "kubectl apply does this. Needs the admin right.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl create ci --template python --target 8\n"
     "  warmpoolctl create ci --template python -s objective=99%\n"
     "  warmpoolctl create --file pool.yaml\n",
     NAMES("template", "target", "autoscale", "file", ), 0, 1, false,
     WP_SUBJECT_NONE, wp_cmd_create},
    {"delete", "POOL", "Remove a pool that create has added",
     "Removes the pool. Its idle sandboxes are destroyed; its leases live on.\n"
     "A pool of the manifests goes when it is taken out of them and the "
     "daemon\n"
     "gets SIGHUP. Needs the admin right.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl delete ci\n",
     NAMES(), 1, 1, false, WP_SUBJECT_POOL, wp_cmd_delete},
    {"explain", "POOL", "Show why a pool has the size it has",
     "Says how many sandboxes the pool keeps and why, what holds it back, "
     "what\n"
     "may be expected, and what was seen; then the reservations. A pool has a\n"
     "scaler when it has an objective (autoscale.warmpool.io/objective).\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl explain agents\n"
     "  warmpoolctl explain agents --terms\n"
     "  warmpoolctl explain agents --output json | jq .decisions[0].terms\n",
     NAMES("terms", ), 1, 1, false, WP_SUBJECT_POOL, wp_cmd_explain},
    {"reserve", "POOL N", "Announce that N sandboxes will be claimed",
     "Tells the pool's scaler that N sandboxes will be claimed. The time\n"
     "begins --in from now and lasts --for. The scaler orders them early\n"
     "enough to be ready. Claims use them up. At the end the scaler drops\n"
     "what is left. Needs the admin right.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl reserve agents 200 --in 15m --for 5m --id nightly\n",
     NAMES("id", "in", "for", ), 2, 2, false, WP_SUBJECT_POOL, wp_cmd_reserve},
    {"unreserve", "POOL ID", "Take a reservation back",
     "Gives up what is left of the reservation. Needs the admin right.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl unreserve agents nightly\n",
     NAMES(), 2, 2, false, WP_SUBJECT_POOL, wp_cmd_unreserve},
    {"watch", "[POOL]", "Show the pools now and after every change",
     "Follows the pools until interrupted. With --output json: one object a\n"
     "line for every change.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl watch\n"
     "  warmpoolctl watch agents --output json | jq "
     ".pools[0].sandboxes.ready\n",
     NAMES(), 0, 1, false, WP_SUBJECT_POOL, wp_cmd_watch},
    {"advise", "[POOL]", "Show what another size or policy would have done",
     "Replays claims through other sizes and policies: those that the daemon\n"
     "recorded of POOL, or those of --csv. Shows for each how many claims it\n"
     "would have served at once, how long the others would have waited, and\n"
     "how many sandboxes would have stood idle. The rows are today's setting,\n"
     "warmpool's own scaler with several objectives, fixed sizes, policies of\n"
     "other systems, and a policy that knew every claim in advance. At the\n"
     "end it says what to set, and what is doubtful. Without POOL it asks no\n"
     "daemon; then it needs --csv and --lead.\n"
     "Needs the admin right.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl advise agents\n"
     "  warmpoolctl advise agents --objective 99.9% --plot agents.svg\n"
     "  warmpoolctl advise --csv claims.csv --lead 8s --replicas 40\n"
     "  warmpoolctl advise agents --output json | jq .recommended.setting\n",
     NAMES("csv", "objective", "plot", "lead", "replicas", ), 0, 1, false,
     WP_SUBJECT_POOL, wp_cmd_advise},
    {"drain", "[POOL]", "Stop new claims of a pool, or of the whole daemon",
     "With POOL, the pool takes no new claims and is not refilled. Its idle\n"
     "sandboxes are destroyed; its leases live on. --undo takes that back.\n"
     "Without POOL, this is done to every pool. The daemon then ends when the\n"
     "leases have ended or --grace is over. Needs the admin right.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl drain agents\n"
     "  warmpoolctl drain agents --undo\n"
     "  warmpoolctl drain --grace 5m\n",
     NAMES("grace", "undo", ), 0, 1, false, WP_SUBJECT_POOL, wp_cmd_drain},
    {"completion", "bash|zsh|fish", "Print a completion script for a shell",
     "Prints a script that lets the shell complete commands, options, pools\n"
     "and claims.\n"
     "\n"
     "Examples:\n"
     "  source <(warmpoolctl completion bash)\n"
     "  warmpoolctl completion zsh > \"${fpath[1]}/_warmpoolctl\"\n"
     "  warmpoolctl completion fish > "
     "~/.config/fish/completions/warmpoolctl.fish\n",
     NAMES(), 1, 1, false, WP_SUBJECT_SHELL, wp_cmd_completion},
    {"version", "", "Print the version",
     "Prints the version of warmpoolctl.\n"
     "\n"
     "Examples:\n"
     "  warmpoolctl version --output json\n",
     NAMES(), 0, 0, false, WP_SUBJECT_NONE, wp_cmd_version},
    {.name = NULL},
};
