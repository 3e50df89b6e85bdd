# bash completion for warmpoolctl
_warmpoolctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} cmd='' words='' i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        claim|release|renew|get|list|exec|cp|pools|tenants|trust|scale|set|create|delete|explain|reserve|unreserve|watch|advise|drain|completion|version) cmd=${COMP_WORDS[i]}; break ;;
        esac
    done
    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --id) COMPREPLY=(); return ;;
    --ttl) COMPREPLY=(); return ;;
    --wait|-w) COMPREPLY=(); return ;;
    --tenant|-t) COMPREPLY=(); return ;;
    --count|-n) COMPREPLY=(); return ;;
    --env|-e) COMPREPLY=(); return ;;
    --secret) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --secret-env) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --copy) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --archive) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --skill) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --repo) COMPREPLY=(); return ;;
    --volume) COMPREPLY=(); return ;;
    --repo-password) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --sources) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --workdir) COMPREPLY=(); return ;;
    --egress) COMPREPLY=(); return ;;
    --identity) COMPREPLY=(); return ;;
    --token) COMPREPLY=(); return ;;
    --token-file) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --pool|-p) COMPREPLY=($(compgen -W "$(warmpoolctl pools --output name 2>/dev/null)" -- "$cur")); return ;;
    --cwd|-C) COMPREPLY=(); return ;;
    --time-limit) COMPREPLY=(); return ;;
    --state-dir) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --target) COMPREPLY=(); return ;;
    --autoscale|-s) COMPREPLY=(); return ;;
    --template) COMPREPLY=(); return ;;
    --file|-f) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --in) COMPREPLY=(); return ;;
    --for) COMPREPLY=(); return ;;
    --csv) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --objective) COMPREPLY=(); return ;;
    --plot) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --lead) COMPREPLY=(); return ;;
    --replicas) COMPREPLY=(); return ;;
    --grace) COMPREPLY=(); return ;;
    --address|-a) COMPREPLY=(); return ;;
    --http) COMPREPLY=(); return ;;
    --tls-ca) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --tls-cert) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --tls-key) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --tls-name) COMPREPLY=(); return ;;
    --access-token-file) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --timeout) COMPREPLY=(); return ;;
    --output|-o) COMPREPLY=($(compgen -W "table json name" -- "$cur")); return ;;
    esac
    if [[ $cur == -* ]]; then
        words=' --address --http --tls-ca --tls-cert --tls-key --tls-name --access-token-file --timeout --output --help'
        case $cmd in
        claim) words+=' --id --ttl --wait --tenant --count --all-or-nothing --env --secret --secret-env --copy --archive --skill --repo --volume --repo-password --sources --workdir --egress --identity --run' ;;
        release) words+=' --token --token-file' ;;
        renew) words+=' --ttl --hold --token --token-file' ;;
        get) words+=' --tenant' ;;
        list) words+=' --pool --tenant' ;;
        exec) words+=' --cwd --env --time-limit --no-stdin --tenant --token --token-file' ;;
        cp) words+=' --tenant --token --token-file' ;;
        tenants) words+=' --tenant' ;;
        trust) words+=' --tenant --state-dir --forget' ;;
        set) words+=' --target --autoscale' ;;
        create) words+=' --template --target --autoscale --file' ;;
        explain) words+=' --terms' ;;
        reserve) words+=' --id --in --for' ;;
        advise) words+=' --csv --objective --plot --lead --replicas' ;;
        drain) words+=' --grace --undo' ;;
        esac
    else
        case $cmd in
        '') words='claim release renew get list exec cp pools tenants trust scale set create delete explain reserve unreserve watch advise drain completion version help' ;;
        claim) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        release) words="$(warmpoolctl list --output name 2>/dev/null)" ;;
        renew) words="$(warmpoolctl list --output name 2>/dev/null)" ;;
        get) words="$(warmpoolctl list --output name 2>/dev/null)" ;;
        exec) words="$(warmpoolctl list --output name 2>/dev/null)" ;;
        cp) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        pools) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        tenants) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        scale) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        set) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        delete) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        explain) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        reserve) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        unreserve) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        watch) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        advise) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        drain) words="$(warmpoolctl pools --output name 2>/dev/null)" ;;
        completion) words="bash zsh fish" ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _warmpoolctl warmpoolctl
