// Finds the program of a command as a shell does.
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'

/** The absolute path of an executable file; undefined if there is none. A path starts from `baseDir`. */
export function findCommand(command: string, baseDir: string, path: string | undefined): string | undefined {
  if (command.includes('/')) return executable(resolve(baseDir, command))
  for (const directory of (path ?? '').split(delimiter)) {
    if (!isAbsolute(directory)) continue
    const found = executable(join(directory, command))
    if (found !== undefined) return found
  }
  return undefined
}

function executable(path: string): string | undefined {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile() ? path : undefined
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined
    throw error
  }
}
