// The entry of the bundle: runs it, or the modules of the packages if it was not made from them.
import module from 'node:module'
import { isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isCurrent } from './bundle.js'

interface CompileCache {
  /** From Node 22.1 on. */
  enableCompileCache?(directory: string): unknown
}

const { HOME, XDG_CACHE_HOME } = process.env
// Node's default is in the temporary directory, where another user could write what this process runs.
const caches = [XDG_CACHE_HOME, HOME && join(HOME, '.cache')].find((path) => path && isAbsolute(path))
if (caches) (module as CompileCache).enableCompileCache?.(join(caches, 'svc-sdk'))

const root = fileURLToPath(new URL('../..', import.meta.url))
// In the bundle, the first is a part of it.
void (isCurrent(root) ? import('./main.js') : import(new URL('../cli/main.js', import.meta.url).href))
