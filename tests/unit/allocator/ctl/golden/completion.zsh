#compdef warmpoolctl
_warmpoolctl() {
    local cmd='' i
    local -a commands
    for ((i = 2; i < CURRENT; i++)); do
        case $words[i] in
        (claim|release|renew|get|list|exec|cp|pools|tenants|trust|scale|set|create|delete|explain|reserve|unreserve|watch|advise|drain|completion|version) cmd=$words[i]; break ;;
        esac
    done
    case $words[CURRENT-1] in
    (--id) :; return ;;
    (--ttl) :; return ;;
    (--wait|-w) :; return ;;
    (--tenant|-t) :; return ;;
    (--count|-n) :; return ;;
    (--env|-e) :; return ;;
    (--secret) _files; return ;;
    (--secret-env) _files; return ;;
    (--copy) _files; return ;;
    (--archive) _files; return ;;
    (--skill) _files; return ;;
    (--repo) :; return ;;
    (--volume) :; return ;;
    (--repo-password) _files; return ;;
    (--sources) _files; return ;;
    (--workdir) :; return ;;
    (--egress) :; return ;;
    (--identity) :; return ;;
    (--token) :; return ;;
    (--token-file) _files; return ;;
    (--pool|-p) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"}; return ;;
    (--cwd|-C) :; return ;;
    (--time-limit) :; return ;;
    (--state-dir) _files; return ;;
    (--target) :; return ;;
    (--autoscale|-s) :; return ;;
    (--template) :; return ;;
    (--file|-f) _files; return ;;
    (--in) :; return ;;
    (--for) :; return ;;
    (--csv) _files; return ;;
    (--objective) :; return ;;
    (--plot) _files; return ;;
    (--lead) :; return ;;
    (--replicas) :; return ;;
    (--grace) :; return ;;
    (--address|-a) :; return ;;
    (--http) :; return ;;
    (--tls-ca) _files; return ;;
    (--tls-cert) _files; return ;;
    (--tls-key) _files; return ;;
    (--tls-name) :; return ;;
    (--access-token-file) _files; return ;;
    (--timeout) :; return ;;
    (--output|-o) compadd -- table json name; return ;;
    esac
    if [[ $PREFIX == -* ]]; then
        compadd -- --address --http --tls-ca --tls-cert --tls-key --tls-name --access-token-file --timeout --output --help
        case $cmd in
        (claim) compadd -- --id --ttl --wait --tenant --count --all-or-nothing --env --secret --secret-env --copy --archive --skill --repo --volume --repo-password --sources --workdir --egress --identity --run ;;
        (release) compadd -- --token --token-file ;;
        (renew) compadd -- --ttl --hold --token --token-file ;;
        (get) compadd -- --tenant ;;
        (list) compadd -- --pool --tenant ;;
        (exec) compadd -- --cwd --env --time-limit --no-stdin --tenant --token --token-file ;;
        (cp) compadd -- --tenant --token --token-file ;;
        (tenants) compadd -- --tenant ;;
        (trust) compadd -- --tenant --state-dir --forget ;;
        (set) compadd -- --target --autoscale ;;
        (create) compadd -- --template --target --autoscale --file ;;
        (explain) compadd -- --terms ;;
        (reserve) compadd -- --id --in --for ;;
        (advise) compadd -- --csv --objective --plot --lead --replicas ;;
        (drain) compadd -- --grace --undo ;;
        esac
        return
    fi
    case $cmd in
    ('') commands=(
        claim:'Lease a sandbox that is ready'
        release:'End leases and destroy their sandboxes'
        renew:'Set a lease'\''s end to --ttl from now'
        get:'Show one claim'
        list:'List the live claims'
        exec:'Run a command in a claim'\''s sandbox'
        cp:'Copy a file into or out of a sandbox'
        pools:'Show the pools and how full they are'
        tenants:'Show what each tenant has and may have'
        trust:'Show which instruction files are trusted, or forget'
        scale:'Change how many sandboxes a pool keeps ready'
        set:'Change a pool'\''s target or its scaling policy'
        create:'Add a pool'
        delete:'Remove a pool that create has added'
        explain:'Show why a pool has the size it has'
        reserve:'Announce that N sandboxes will be claimed'
        unreserve:'Take a reservation back'
        watch:'Show the pools now and after every change'
        advise:'Show what another size or policy would have done'
        drain:'Stop new claims of a pool, or of the whole daemon'
        completion:'Print a completion script for a shell'
        version:'Print the version'
        ); _describe command commands ;;
    (claim) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (release) compadd -- ${(f)"$(warmpoolctl list --output name 2>/dev/null)"} ;;
    (renew) compadd -- ${(f)"$(warmpoolctl list --output name 2>/dev/null)"} ;;
    (get) compadd -- ${(f)"$(warmpoolctl list --output name 2>/dev/null)"} ;;
    (exec) compadd -- ${(f)"$(warmpoolctl list --output name 2>/dev/null)"} ;;
    (cp) _files ;;
    (pools) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (tenants) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (scale) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (set) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (delete) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (explain) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (reserve) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (unreserve) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (watch) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (advise) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (drain) compadd -- ${(f)"$(warmpoolctl pools --output name 2>/dev/null)"} ;;
    (completion) compadd -- bash zsh fish ;;
    esac
}
if [[ $ZSH_EVAL_CONTEXT == *:file ]]; then
    compdef _warmpoolctl warmpoolctl
else
    _warmpoolctl "$@"
fi
