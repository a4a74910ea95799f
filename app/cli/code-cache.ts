// Keeps the compiled code of the bundle on versions of Node that cannot do that by themselves: compiling is a fifth of the time in
// which a gateway starts.
import { createHash } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { Script } from 'node:vm'

/** Reading the cache of a smaller file takes longer than compiling it. */
const MIN_LENGTH = 20_000

/** Code from a cache has no loader for `import()`: these files are compiled anew. */
const IMPORT = /\bimport\(/

interface LoadedModule {
  exports: unknown
}

/**
 * Compiles files of `bundle` from the cache in `directory`, to which only this user may write, and adds to it at the end of the
 * process what was not there. Of code with other bytes, or for another version or setting of V8, nothing is used.
 */
export function keepCompiledCode(bundle: string, directory: string): void {
  const { extensions } = createRequire(join(bundle, 'start.js'))
  const load = extensions['.js']
  const compiled = new Map<string, Script>()
  extensions['.js'] = (module, filename) => {
    const code = dirname(filename) === bundle ? readFileSync(filename, 'utf8') : ''
    if (code.length < MIN_LENGTH || IMPORT.test(code)) return load(module, filename)
    const digest = createHash('sha256').update(code).digest('hex')
    const file = join(directory, `${basename(filename, '.js')}-${process.version}-${process.arch}-${digest}`)
    const cachedData = readIfExists(file)
    // On one line with the code, whose lines keep their numbers in stack traces.
    const script = new Script(`(function (exports, require, module, __filename, __dirname) { ${code}\n})`, {
      filename,
      ...(cachedData === undefined ? {} : { cachedData }),
    })
    if (cachedData === undefined || script.cachedDataRejected === true) compiled.set(file, script)
    const loaded: LoadedModule = module
    const run = script.runInThisContext()
    run.call(loaded.exports, loaded.exports, createRequire(filename), module, filename, bundle)
  }
  process.once('exit', () => {
    for (const [file, script] of compiled) replaceFile(file, script.createCachedData())
  })
}

function readIfExists(file: string): Buffer | undefined {
  try {
    return readFileSync(file)
  } catch {
    // Without the cache the code is compiled.
    return undefined
  }
}

/** Another process may read the file at the same time. */
function replaceFile(file: string, bytes: Uint8Array): void {
  const temporary = `${file}.${process.pid}`
  try {
    writeFileSync(temporary, bytes, { mode: 0o600 })
    renameSync(temporary, file)
  } catch {
    // The disk is full or the directory is gone: the next start compiles again.
  }
}
