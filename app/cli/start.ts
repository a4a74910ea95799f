// The entry of the bundle: runs it, or the modules of the packages if it was not made from them.
import { mkdirSync, statSync } from 'node:fs'
import module from 'node:module'
import { dirname, isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isCurrent } from './bundle.js'
import { keepCompiledCode } from './code-cache.js'

interface CompileCache {
  /** From Node 22.1 on. */
  enableCompileCache?(directory: string): unknown
}

const { HOME, XDG_CACHE_HOME, NODE_DISABLE_COMPILE_CACHE } = process.env
// Node's default is in the temporary directory, where another user could write what this process runs.
const caches = [XDG_CACHE_HOME, HOME && join(HOME, '.cache')].find((path) => path && isAbsolute(path))
if (caches) enableCompileCache(join(caches, 'svc-sdk'))

const root = fileURLToPath(new URL('../..', import.meta.url))
// In the bundle, the first is a part of it.
void (isCurrent(root) ? import('./main.js') : import(new URL('../cli/main.js', import.meta.url).href))

/**
 * Without a cache the command starts too, only slower. With `sudo` the home may be another user's, and the directories
 * that Node makes in this one have the modes that the mask of the process gives them.
 */
function enableCompileCache(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const { uid, mode } = statSync(directory)
    const isPrivate = process.platform === 'win32' || (uid === process.getuid?.() && (mode & 0o077) === 0)
    if (!isPrivate) return
    const { enableCompileCache: enable } = module as CompileCache
    if (enable !== undefined) enable(directory)
    else if (NODE_DISABLE_COMPILE_CACHE === undefined)
      keepCompiledCode(dirname(fileURLToPath(import.meta.url)), directory)
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error
  }
}
