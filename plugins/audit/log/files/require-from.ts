// Loads native packages when they are needed, and so that a bundler does not read them.
import { createRequire } from 'node:module'
import { join } from 'node:path'

/** `url` is that of the calling module; a bundle in CommonJS has none, and looks from the working directory. */
export function requireFrom(url: string | undefined): NodeJS.Require {
  return createRequire(url ?? join(process.cwd(), 'bundle.cjs'))
}
