# What a template is: a folder with template.json (a base, made from packages alone) or with template.conf
# (a layer over another template). Sourced; needs common.sh.

TEMPLATE_NAME_FORM='^[a-z0-9][a-z0-9-]{0,39}$'
# A layer over a layer over …: more is a circle.
LAYERS_MAX=8
# limit_rows: "name TYPE least most" of each limit that a sandbox may have.
limit_rows() {
	sed -n 's/^LIMIT(\([a-z_]*\), \([A-Z]*\), \([0-9.]*\), \([0-9.]*\),.*/\1 \2 \3 \4/p' "$REPO/kernels/link/limits.def"
}

CONF_KEYS=" BASE DESCRIPTION PACKAGES PIP WHEELS NPM FILES SETUP KERNELS WARM $(limit_rows | awk '{ printf "%s ", toupper($1) }')ENV "

# template_find NAME: the folder of a template that is shipped, or built here before; nothing: there is none.
template_find() {
	local dir
	[[ $1 =~ $TEMPLATE_NAME_FORM ]] || die "a template's name has lower-case letters, digits and -, at most 40: not '$1'"
	for dir in "$REPO/conf/templates/$1" ${STATE:+"$STATE/templates/$1/recipe"}; do
		[ ! -f "$dir/template.json" ] && [ ! -f "$dir/template.conf" ] || { printf '%s\n' "$dir"; return; }
	done
}

# conf_all DIR KEY: every value that template.conf gives it.
conf_all() {
	sed -n "s/^[[:space:]]*$2[[:space:]]*=[[:space:]]*//; t found; d; :found; s/[[:space:]]*\$//; /./p" "$1/template.conf"
}

# conf_value DIR KEY [DEFAULT]: the last of them.
conf_value() {
	local value
	value=$(conf_all "$1" "$2" | tail -n 1)
	printf '%s\n' "${value:-${3:-}}"
}

conf_fault() { die "$1/template.conf: $2"; }

# conf_path DIR KEY KIND: the file (-f) or folder (-d) it names, which lies in the template's folder.
conf_path() {
	local path
	path=$(conf_value "$1" "$2")
	[ -n "$path" ] || return 0
	[[ $path =~ ^[A-Za-z0-9._][A-Za-z0-9._/-]*$ && /$path/ != */../* ]] ||
		conf_fault "$1" "$2=$path must be a path inside the template's folder."
	test "$3" "$1/$path" || conf_fault "$1" "$2=$path: there is no such $([ "$3" = -d ] && echo folder || echo file) in the template."
	printf '%s\n' "$path"
}

conf_number() { # conf_number DIR KEY TYPE MIN MAX
	local value kind='a number'
	[ "$3" = NUMBER ] || kind='a whole number'
	value=$(conf_value "$1" "$2")
	[ -z "$value" ] || awk -v v="$value" -v type="$3" -v min="$4" -v max="$5" \
		'BEGIN { exit !(v ~ (type == "NUMBER" ? "^[0-9]+([.][0-9]+)?$" : "^[0-9]+$") && v + 0 >= min && v + 0 <= max) }' ||
		conf_fault "$1" "$2=$value must be $kind from $4 to $5."
}

# conf_check DIR: everything that can be wrong before anything is fetched.
conf_check() {
	local line key n=0 env name type min max
	while IFS= read -r line || [ -n "$line" ]; do
		n=$((n + 1))
		[[ $line =~ ^[[:space:]]*(#|$) ]] && continue
		[[ $line =~ ^[[:space:]]*([A-Z_]+)[[:space:]]*= ]] || conf_fault "$1" "line $n is not of the form NAME=value."
		key=${BASH_REMATCH[1]}
		[[ $CONF_KEYS == *" $key "* ]] || conf_fault "$1" "line $n: there is no $key; there are$CONF_KEYS"
	done <"$1/template.conf"
	conf_path "$1" PIP -f >/dev/null
	conf_path "$1" WHEELS -d >/dev/null
	conf_path "$1" FILES -d >/dev/null
	conf_path "$1" SETUP -f >/dev/null
	conf_path "$1" WARM -d >/dev/null
	while read -r name type min max; do
		conf_number "$1" "${name^^}" "$type" "$min" "$max"
	done < <(limit_rows)
	[[ $(conf_value "$1" PACKAGES) =~ ^[a-z0-9.+:\ -]*$ ]] || conf_fault "$1" "PACKAGES are names of Debian packages, with spaces between."
	[[ $(conf_value "$1" KERNELS) =~ ^[A-Za-z0-9._\ -]*$ ]] || conf_fault "$1" "KERNELS are names of languages, with spaces between."
	[[ $(conf_value "$1" NPM) =~ ^[A-Za-z0-9@._/\ -]*$ ]] || conf_fault "$1" "NPM are names of packages, with spaces between."
	while IFS= read -r env; do
		[[ $env =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || conf_fault "$1" "ENV=$env is not of the form NAME=value."
	done < <(conf_all "$1" ENV)
}

# template_select NAME|DIR: sets LAYERS, the folders of its layers from the lowest on, and TEMPLATE_DIR and
# TEMPLATE_NAME, those of the base under them.
template_select() {
	local dir=$1
	LAYERS=()
	[ -d "$dir" ] && [[ $dir == */* ]] || dir=$(template_find "$1")
	[ -n "$dir" ] || die "there is no template '$1' in conf/templates${STATE:+ or $STATE/templates}"
	: "${RECIPE_NAME:=$(basename "$dir")}"
	while [ -f "$dir/template.conf" ]; do
		conf_check "$dir"
		LAYERS=("$dir" "${LAYERS[@]}")
		[ "${#LAYERS[@]}" -le "$LAYERS_MAX" ] || die "$1: its BASEs go on for more than $LAYERS_MAX templates"
		TEMPLATE_NAME=$(conf_value "$dir" BASE python)
		dir=$(template_find "$TEMPLATE_NAME")
		[ -n "$dir" ] || conf_fault "${LAYERS[0]}" "BASE=$TEMPLATE_NAME: there is no such template."
	done
	[ "${#LAYERS[@]}" -gt 0 ] || TEMPLATE_NAME=$(basename "$dir")
	wheels_select
	TEMPLATE_DIR=$dir
	[ "$dir" = "$REPO/conf/templates/$TEMPLATE_NAME" ] || die "a template with a template.json belongs into conf/templates"
	jq -e . "$dir/template.json" >/dev/null || die "conf/templates/$TEMPLATE_NAME/template.json is not JSON"
}

# The setting WHEELS: a layer on top with that folder in it, where pip inside looks first. It has no folder of its own in
# which a template.conf could lie: it is put together below the cache, under the hash of its content.
WHEELS_INSIDE=usr/local/share/wheels
wheels_select() {
	local dir
	[ -n "${WHEELS:-}" ] || return 0
	[ -d "$WHEELS" ] || die "WHEELS=$WHEELS is no folder"
	dir=$CACHE/wheels/$(hash_files "$WHEELS" .)
	if [ ! -d "$dir" ]; then
		need_root
		cache_lock
		entry_begin wheels
		mkdir -p "$ENTRY_TMP/files/$WHEELS_INSIDE"
		find "$WHEELS" -name '*.whl' -exec cp -t "$ENTRY_TMP/files/$WHEELS_INSIDE" {} +
		printf 'FILES=files\nENV=PIP_FIND_LINKS=/%s\n' "$WHEELS_INSIDE" >"$ENTRY_TMP/template.conf"
		entry_publish wheels "$(basename "$dir")"
	fi
	LAYERS+=("$dir")
}

words_json() { jq -Rc 'split(" ") | map(select(. != ""))' <<<"$1"; }

# What each language's kernel runs before the snapshot: a file a language in the folder WARM, whatever its ending.
warm_json() {
	local dir file
	dir=$(conf_path "$1" WARM -d)
	[ -n "$dir" ] || { echo null; return; }
	for file in "$1/$dir"/*; do
		[ -f "$file" ] || continue
		jq -Rsc --arg language "$(basename "${file%.*}")" '{($language): .}' "$file"
	done | jq -sc 'add'
}

# limits_given DIR: the limits it sets, as an object.
limits_given() {
	local name
	while read -r name _; do
		conf_value "$1" "${name^^}" | jq -Rc --arg name "$name" 'select(. != "") | {($name): tonumber}'
	done < <(limit_rows) | jq -sc 'add // {}'
}

# recipe_print: the base's template.json with what its layers say otherwise.
recipe_print() {
	local dir recipe
	recipe=$(cat "$TEMPLATE_DIR/template.json")
	for dir in "${LAYERS[@]}"; do
		recipe=$(jq --arg name "$RECIPE_NAME" --arg base "$([[ $dir == "$CACHE"/wheels/* ]] || conf_value "$dir" BASE python)" \
			--arg description "$(conf_value "$dir" DESCRIPTION)" --argjson languages "$(words_json "$(conf_value "$dir" KERNELS)")" \
			--argjson limits "$(limits_given "$dir")" --argjson warm "$(warm_json "$dir")" \
			--argjson env "$(conf_all "$dir" ENV | jq -Rnc '[inputs | capture("^(?<key>[^=]+)=(?<value>.*)$")] | from_entries')" \
			'def given(value): if value == null or value == "" or value == [] then . else value end;
			del(.packages) | .name = $name | .base |= given($base) | .description |= given($description)
			| .languages |= given($languages) | .limits = ((.limits // {}) + $limits)
			| .warm |= given($warm) | .env = ((.env // {}) + $env)' <<<"$recipe")
	done
	printf '%s\n' "$recipe"
}
