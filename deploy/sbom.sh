#!/usr/bin/env bash
# Writes what the programs are made of, as SPDX 2.3 in JSON: each program with its
# digest, and the Debian packages whose libraries it links, with their versions.
#
#   deploy/sbom.sh VERSION [PROGRAM=ARCHIVE...] -- PATH...   >warmpool.spdx.json
#
# PROGRAM=ARCHIVE says what a program without shared libraries was linked with. Needs
# dpkg; asks the dynamic linker. SOURCE_DATE_EPOCH sets the time that is written.
set -euo pipefail

version=$1
shift
archives=()
while [ "${1:---}" != -- ]; do
    archives+=("$1")
    shift
done
[ "${1:-}" = -- ] && shift
[ $# -gt 0 ] || {
    echo "usage: ${0##*/} VERSION [PROGRAM=ARCHIVE...] -- PATH..." >&2
    exit 2
}

# libraries_of PATH: what the dynamic linker loads for it, or what it was linked with.
libraries_of() {
    local found archive
    found=$(ldd "$1" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }')
    if [ -n "$found" ]; then
        echo "$found" | xargs readlink -f
        return
    fi
    for archive in "${archives[@]}"; do
        [ "${archive%%=*}" != "${1##*/}" ] || readlink -f "${archive#*=}"
    done
}

# The package of each library. Packages from before /usr was merged name other paths.
declare -A owner
all=$(for program in "$@"; do libraries_of "$program"; done | sort -u)
while IFS=' ' read -r package path; do
    owner[${path#/usr}]=${package%%:*}
done < <(
    # shellcheck disable=SC2086 # Paths of libraries: no spaces.
    dpkg-query -S $all ${all//\/usr\/lib/\/lib} 2>/dev/null
)
declare -A versions
# shellcheck disable=SC2016 # dpkg's variables, not the shell's.
while read -r package version_of; do
    versions[$package]=$version_of
done < <(printf '%s\n' "${owner[@]}" | sort -u |
    xargs dpkg-query -W -f='${Package} ${Version}\n')

files=""
relations=""
for program in "$@"; do
    name=${program##*/}
    digest=$(sha256sum "$program")
    files+="${files:+,}
    {\"SPDXID\": \"SPDXRef-File-$name\", \"fileName\": \"./$name\",
     \"fileTypes\": [\"BINARY\"],
     \"checksums\": [{\"algorithm\": \"SHA256\",
                    \"checksumValue\": \"${digest%% *}\"}]}"
    relations+="${relations:+,}
    {\"spdxElementId\": \"SPDXRef-warmpool\", \"relationshipType\": \"CONTAINS\",
     \"relatedSpdxElement\": \"SPDXRef-File-$name\"}"
    kind=DYNAMIC_LINK
    ldd "$program" >/dev/null 2>&1 && ! ldd "$program" | grep -q statically ||
        kind=STATIC_LINK
    declare -A seen=()
    for library in $(libraries_of "$program"); do
        package=${owner[${library#/usr}]:-}
        [ -n "$package" ] || {
            echo "${0##*/}: no package has $library" >&2
            exit 1
        }
        [ -z "${seen[$package]:-}" ] || continue
        seen[$package]=yes
        relations+=",
    {\"spdxElementId\": \"SPDXRef-File-$name\", \"relationshipType\": \"$kind\",
     \"relatedSpdxElement\": \"SPDXRef-Package-${package//+/-}\"}"
    done
    unset seen
done

packages=""
for package in $(printf '%s\n' "${!versions[@]}" | sort); do
    packages+=",
    {\"SPDXID\": \"SPDXRef-Package-${package//+/-}\", \"name\": \"$package\",
     \"versionInfo\": \"${versions[$package]}\", \"supplier\": \"Organization: Debian\",
     \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false,
     \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\",
       \"referenceType\": \"purl\",
       \"referenceLocator\": \"pkg:deb/debian/$package@${versions[$package]//+/%2B}\"}]}"
done

created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)
digest=$(printf '%s' "$files" | sha256sum)
cat <<JSON
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "warmpool-$version",
  "documentNamespace": "urn:warmpool:$version:${digest%% *}",
  "creationInfo": {"created": "$created", "creators": ["Tool: ${0##*/}"]},
  "documentDescribes": ["SPDXRef-warmpool"],
  "packages": [
    {"SPDXID": "SPDXRef-warmpool", "name": "warmpool", "versionInfo": "$version",
     "licenseDeclared": "Apache-2.0", "downloadLocation": "NOASSERTION",
     "filesAnalyzed": false}$packages
  ],
  "files": [$files
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
     "relatedSpdxElement": "SPDXRef-warmpool"},$relations
  ]
}
JSON
