// The command that both bin names, `svc-sdk` and `svc`, run.
import { runCommandLine } from './command-line.js'
import { processIo } from './io.js'
import { programFor } from './program.js'

const args = process.argv.slice(2)
const io = processIo()
void programFor(args[0] ?? '--help', io).then((program) => runCommandLine(program, args, io))
