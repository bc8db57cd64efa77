# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034,SC2154 # variables of who reads it
#
# What build and deb share, and read with ".": facts of the known releases, and the source of OpenSSH. Who reads it
# has set program (its name) and here (this folder); before anything is taken: work (a folder of this run, to be
# removed), archive (a folder that keeps what was fetched) and tree (a folder for the source).

top=$(dirname "$here")

# A field of UPSTREAM, of one release or ('') of each.
facts()
{
    awk -v version="$1" -v field="$2:" '
        $1 == "version:" { wanted = version == "" || $2 == version }
        wanted && $1 == field { sub(/^[^ ]* /, ""); print }' "$here/UPSTREAM"
}

say()
{
    echo "$program: $*" >&2
}

die()
{
    say "$@"
    exit 1
}

# The series is for each release from the first to the last of UPSTREAM.
known()
{
    first=$(facts '' version | head -n 1) last=$(facts '' version | tail -n 1)
    printf '%s\n' "$first" "$1" "$last" | sort -C -V || die "there is no series for OpenSSH $1, only for $first to $last"
}

quietly()
{
    "$top/scripts/quietly" "$@"
}

# ---- the source ----

unpack()
{
    tar -xf "$1" -C "$tree" --strip-components=1
}

from_archive()
{
    # shellcheck disable=SC2046 # suites are words
    said=$("$top/scripts/debian-source" --newest openssh "$version" "$archive" $(facts "${version:-none}" suites))
    what="the distribution's ${said%% *}" kind=patched
    quietly dpkg-source --extract "${said#* }" "$work/source"
    cp -a "$work/source/." "$tree/"
}

from_upstream()
{
    file=$(facts "$version" file)
    "$top/scripts/debian-source" openssh "$(facts "$version" suites)" "$file" "$(facts "$version" sha256)" "$archive"
    what="upstream's $version" kind=bare
    unpack "$archive/$file"
}

from_tarball()
{
    sum=$(sha256sum "$source" | cut -d ' ' -f 1)
    what=$source kind=unknown
    for release in $(facts '' version); do
        if [ "$sum" = "$(facts "$release" sha256)" ]; then
            what="upstream's $release" kind=bare
            version=${version:-$release}
            break
        fi
        case ${source##*/} in
        "openssh-$release.tar.gz" | "openssh_$release.orig.tar.gz")
            die "$source is not $release as upstream released it: its SHA-256 differs"
            ;;
        esac
    done
    unpack "$source"
}

# A package's source that apt-get source or dpkg-source unpacked has its patches applied, and a list of them.
from_folder()
{
    cp -a "$source/." "$tree/"
    what=$source kind=unknown
    if [ -f "$tree/debian/changelog" ]; then
        what="$source, $(sed -n '1s/.*(\(.*\)).*/\1/p' "$tree/debian/changelog")"
        grep -v -e '^#' -e '^$' "$tree/debian/patches/series" >"$work/wanted" || true
        if cmp -s "$work/wanted" "$tree/.pc/applied-patches"; then
            kind=patched
        else
            kind=bare what="$what, without its patches"
        fi
    fi
}

# take archive|upstream|source: puts the source into $tree. Sets what (for people), kind (patched by the
# distribution, bare: upstream's, or unknown) and version, if it is ''.
take()
{
    say "gets the source"
    case $1 in
    archive) from_archive ;;
    upstream) from_upstream ;;
    source) if [ -d "$source" ]; then from_folder; else from_tarball; fi ;;
    esac
    [ -f "$tree/version.h" ] || die "$what is no source of OpenSSH"
    [ -n "$version" ] ||
        version=$(sed -n -e 's/^#define SSH_VERSION.*"OpenSSH_\(.*\)"/\1/p' \
            -e 's/^#define SSH_PORTABLE.*"\(.*\)"/\1/p' "$tree/version.h" | tr -d '\n')
    known "$version"
}

# ---- what is added to it ----

# The library, installed below a folder, to link with statically.
library()
{
    say "builds the library"
    quietly env CFLAGS="${CFLAGS:--O2}" meson setup --prefix "$1" --libdir lib --default-library static \
        --buildtype plain -Dtools=false -Dexamples=false -Ddocs=false -Dtests=false -Dproftpd=disabled \
        "$work/library" "$top"
    quietly meson install -C "$work/library"
}

# Applies the series, but for a patch that $without names, and adds the files that it calls.
add_series()
{
    while read -r patch; do
        [ "$patch" = "${without-}" ] || quietly patch -d "$tree" -p1 -F0 -i "$here/$patch"
    done <"$here/series"
    cp "$here"/autobuf-*.[ch] "$tree/"
}
