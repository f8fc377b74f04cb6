# Completion of carrel for bash: source this file, or copy it to
# /usr/share/bash-completion/completions/carrel.

# Whatever answers late or not at all completes nothing.
_carrel_wait_s=2

_carrel_ids() { # _carrel_ids [-a]: ids of sandboxes
	timeout "$_carrel_wait_s" "$program" ls -q "$@" 2>/dev/null </dev/null
}

_carrel_words() { # _carrel_words [VERB]: what the program says may stand there
	timeout "$_carrel_wait_s" "$program" help --words "$@" 2>/dev/null </dev/null
}

_carrel_reply() { # _carrel_reply WORDS: those that begin like the word at the cursor
	local IFS=$' \t\n'
	COMPREPLY+=($(compgen -W "$1" -- "$cur"))
}

# Values of options; fails where the word at the cursor is none.
_carrel_value() {
	case $verb/$prev in
	run/--sandbox) _carrel_reply "$(_carrel_ids)" ;;
	run/--engine) _carrel_reply "auto kvm tcg jail" ;;
	run/--images | logs/--images) compopt -o dirnames ;;
	kernel/--language) _carrel_reply "python bash" ;;
	kernel/--files | kernelspec/--prefix) compopt -o dirnames ;;
	run/--put | run/--get) compopt -o filenames && COMPREPLY=($(compgen -f -- "$cur")) ;;
	run/-c | run/--limit | run/--template | run/--language | */--env | */--timeout | */--cwd | */--quota | */--history-days | */--history-mb | */--since | */--until | */--owner | */--tag | */--name | */--expires | \
		*/--count | */--full | fork/-n | logs/-n) ;;
	*) return 1 ;;
	esac
}

# What a verb works on; nothing said means file names (complete -o default).
_carrel_operand() {
	case $verb in
	kill | pause | resume | fork | logs | connection) _carrel_reply "$(_carrel_ids)" ;;
	exec | shell) [ "$operands" -gt 0 ] || _carrel_reply "$(_carrel_ids)" ;;
	cp)
		compopt -o filenames -o nospace
		_carrel_reply "$(_carrel_ids | sed 's/$/:/')"
		COMPREPLY+=($(compgen -f -- "$cur"))
		;;
	help) _carrel_reply "$(_carrel_words)" ;;
	backup | restore) compopt -o filenames && COMPREPLY=($(compgen -f -- "$cur")) ;;
	owner | key | template | kernelspec) [ "$operands" -gt 0 ] || _carrel_reply "$(_carrel_words "$verb" | grep -v '^-')" ;;
	esac
}

_carrel() {
	local program=${COMP_WORDS[0]/#\~/$HOME} cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local verb='' operands=0 i word

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		# What stands behind -- belongs to the program in the sandbox.
		[ "$word" != -- ] || return 0
		[[ $word != -* ]] || continue
		if [ -z "$verb" ]; then verb=$word; else operands=$((operands + 1)); fi
	done
	if [ -z "$verb" ]; then
		_carrel_reply "$(_carrel_words)"
	elif _carrel_value; then
		:
	elif [[ $cur == -* ]]; then
		_carrel_reply "$(_carrel_words "$verb" | grep '^-')"
	else
		_carrel_operand
	fi
}

complete -o default -F _carrel carrel
