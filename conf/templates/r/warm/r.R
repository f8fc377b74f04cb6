# Loaded, drawn and printed once; nothing that draws random numbers, which every clone would share.
local({
	suppressPackageStartupMessages({ library(ggplot2); library(dplyr) })
	plot(1:3)
	print(ggplot(data.frame(x = 1:3, y = 3:1), aes(x, y)) + geom_line())
	data.frame(x = c(1, 1, 2), y = 1:3) |> group_by(x) |> summarise(y = mean(y))
})
