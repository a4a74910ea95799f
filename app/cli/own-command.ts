// How a person starts this program again. `npx svc-sdk` would ask a registry where no directory above has this installation.
import { realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** The file of the program, absolute. */
export function ownProgram(): string {
  const manifest = createRequire(import.meta.url).resolve('svc-sdk/package.json')
  return join(dirname(manifest), 'bin', 'svc.js')
}

/** An entry for clients, by absolute paths: those that a desktop starts have neither a terminal's PATH nor its directory. */
export function launcher(args: readonly string[] = []): { command: string; args: string[] } {
  return { command: process.execPath, args: [ownProgram(), ...args] }
}

/** `npx svc-sdk` if npx runs this installation in the current directory, else Node with the program's path. */
export function ownCommand(from = process.cwd()): string {
  const program = ownProgram()
  return isFound(program, from) ? 'npx svc-sdk' : `node ${quoted(program)}`
}

/** A word of a command line, as a POSIX shell reads it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** npx takes the program of the nearest directory upwards that has one of this name. */
function isFound(program: string, from: string): boolean {
  try {
    return realpathSync(join(from, 'node_modules', '.bin', 'svc-sdk')) === realpathSync(program)
  } catch {
    // Nothing is there: the directory above is next.
    const above = dirname(from)
    return above !== from && isFound(program, above)
  }
}
