# What the kernel puts into its shell. Its first lines, written by shell.c, name in
# __carrel_up, __carrel_answers, __carrel_acks, __carrel_stdin, __carrel_state,
# __carrel_tmp and __carrel_show_max how the two speak; descriptor 9 is the real
# standard error.
#
# Nothing of it is open while the user's code runs: each record opens the pipe by
# its name in /proc and closes it again, so no child inherits it. Bash writes at the
# end of each line; a record without one is a single write, whole among others. It
# begins with a NUL byte as well, in case something else was left without one.

PS1= PS2= PS0=
unset PROMPT_COMMAND MAILCHECK HISTFILE
set +o history +H
shopt -u checkwinsize
exec 2>&9 9>&-
readonly __carrel_up __carrel_answers __carrel_acks __carrel_stdin __carrel_state __carrel_tmp __carrel_show_max

# Says that the whole command was read, and sets $? as the last cell left it. Called
# as `__carrel_begin … && :`, which neither set -e nor a trap on ERR takes for a failure.
__carrel_begin() {
	builtin printf '\0B %s\0' "$1" >|"$__carrel_up"
	return "$2"
}

__carrel_end() {
	__carrel_status=$?
	builtin printf '\0E %s %s %s\0' "$1" "$__carrel_status" "$-" >|"$__carrel_up"
	# A prompt, or under set -v the kernel's own lines, would be written to standard error.
	PS1= PS2= PS0= PROMPT_COMMAND=
	builtin set +v
	return 0
}

# Under set -e the first failure ends the cell, not the shell: an interrupt to itself
# drops what is left of it, and the kernel sends the end again.
__carrel_errexit() {
	builtin printf '\0A %s\0' "$1" >|"$__carrel_up"
	builtin kill -INT $$
}
set -E
trap '__carrel_failed=$?; [[ ! -o errexit || $BASHPID != $$ ]] || __carrel_errexit $__carrel_failed' ERR

# A shell that exits leaves what it knows to the next one.
__carrel_leave() {
	[[ $BASHPID == $$ ]] || return 0
	# What would end the next one as well.
	builtin set +t +n
	builtin unset -v TMOUT
	{
		builtin declare -p
		builtin declare -f
		builtin alias -p
		builtin shopt -p
		builtin umask -p
		builtin printf '\\builtin cd -- %q\n' "$PWD"
		builtin set +o
	} >|"$__carrel_state"
}
trap __carrel_leave EXIT

readonly -f __carrel_begin __carrel_end __carrel_errexit __carrel_leave

# ---- read: at the end of the cell's own standard input the client is asked for a line

# STATUS ARGUMENT…: of the read that failed. True once there is more to read.
__carrel_ask() {
	local __carrel_was=$1 __carrel_prompt='' __carrel_secret=0 __carrel_option OPTIND=1 OPTARG
	builtin shift
	[[ $__carrel_was == 1 && /dev/fd/0 -ef $__carrel_stdin ]] || return "$__carrel_was"
	while builtin getopts :a:d:ei:n:N:p:rst:u: __carrel_option; do
		case $__carrel_option in
		p) __carrel_prompt=$OPTARG ;;
		s) __carrel_secret=1 ;;
		u) [[ $OPTARG == 0 ]] || return "$__carrel_was" ;;
		esac
	done
	builtin printf '\0R\x1f%s\x1f%s\0' "$__carrel_secret" "${__carrel_prompt//$'\n'/$'\x1e'}" >|"$__carrel_up"
	__carrel_option=0
	IFS= builtin read -r -n 1 __carrel_option <"$__carrel_answers"
	[[ $__carrel_option == 1 ]] || return "$__carrel_was"
}

read() {
	builtin read "$@" && return
	__carrel_ask $? "$@" || return
	builtin read "$@"
}

# ---- what a notebook shows: as bash_kernel's functions of these names

# Waits until it was published: what follows is to come after it.
__carrel_shown() {
	local __carrel_ack=''
	IFS= builtin read -r -n 1 __carrel_ack <"$__carrel_acks"
	[[ $__carrel_ack == 1 ]]
}

# KIND [FILE] [DISPLAY_ID]; without a FILE that is there, standard input.
__carrel_show() {
	local __carrel_kind=$1 __carrel_own=0 __carrel_file=''
	builtin shift
	if [[ $# -gt 0 && -f $1 ]]; then
		__carrel_file=$1
		[[ $__carrel_file == /* ]] || __carrel_file=$PWD/$__carrel_file
		builtin shift
	else
		__carrel_own=1 __carrel_file=$__carrel_tmp/show.$BASHPID
		command head -c "$__carrel_show_max" >|"$__carrel_file" || return
	fi
	builtin printf '\0D\x1f%s\x1f%s\x1f%s\x1f%s\0' "$__carrel_kind" "$__carrel_own" "${1//[[:cntrl:]]/ }" \
		"${__carrel_file//$'\n'/$'\x1e'}" >|"$__carrel_up"
	__carrel_shown
}
display() { __carrel_show image "$@"; }
displayHTML() { __carrel_show html "$@"; }
displayJS() { __carrel_show js "$@"; }
# What the cell is worth, as the last expression of a cell is in other languages: a picture or text.
displayResult() { __carrel_show result "$@"; }

# Clears what the cell has put out so far.
clear() {
	builtin printf '\0C\0' >|"$__carrel_up"
	__carrel_shown
}
