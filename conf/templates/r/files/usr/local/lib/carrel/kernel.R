# IRkernel, which also takes a new identity as Carrel's own kernels do (kernels/agent/PROTOCOL.md): so it need not be
# started anew in each clone of the warm snapshot. Random numbers and the environment become the clone's own.
local({
	kernel <- IRkernel:::Kernel$new(connection_file = commandArgs(TRUE)[[1]])
	own <- as.environment(kernel)
	read <- kernel$wire_to_msg
	answer <- kernel$send_response
	given <- character()

	identify <- function(content) {
		environment <- as.list(content$env)
		Sys.unsetenv(setdiff(given, names(environment)))
		if (length(environment) > 0) do.call(Sys.setenv, environment)
		given <<- names(environment)
		seed <- readBin(jsonlite::base64_dec(content$entropy), "integer", 1)
		set.seed(if (is.na(seed)) 0 else seed)
	}

	# Every message comes by here; one of a type that IRkernel does not know it passes over.
	unlockBinding("wire_to_msg", own)
	assign("wire_to_msg", function(parts) {
		message <- read(parts)
		if (identical(message$header$msg_type, "carrel_identity_request")) {
			identify(message$content)
			answer("carrel_identity_reply", message, "shell", list(status = "ok"))
		}
		message
	}, envir = own)
	kernel$run()
})
