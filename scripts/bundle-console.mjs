// Bundles the script of the console's pages after `tsc -b`, and puts it with the stylesheet and the icon where the gateway
// reads them. Does nothing if they are made from the files that there are.
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'

const app = fileURLToPath(new URL('../app/', import.meta.url))
const compiled = join(app, 'dist/console/ui')
const assets = join(app, 'dist/console/assets')
const ui = join(app, 'console/ui')

export async function bundleConsole() {
  const inputs = inputsDigest()
  if (read(join(assets, 'inputs.txt')) === inputs) return
  const { rolldown } = await import('rolldown')
  const built = await rolldown({
    cwd: app,
    input: join(compiled, 'main.js'),
    platform: 'browser',
    resolve: { conditionNames: ['browser', 'import'] },
  })
  const { output } = await built.generate({ format: 'esm', minify: true, comments: false })
  await built.close()
  if (output.length !== 1) throw new Error('the script of the console is not one file')
  mkdirSync(assets, { recursive: true })
  replace('icon.svg', readFileSync(join(ui, 'icon.svg')))
  replace('console.css', withoutSpace(stylesheets().map((file) => readFileSync(file, 'utf8'))))
  replace('console.js', output[0].code)
  // Once, as well as it can be done.
  replace('console.js.br', brotliCompressSync(output[0].code))
  replace('console.js.gz', gzipSync(output[0].code, { level: 9 }))
  replace('inputs.txt', inputs)
}

/** Each page has it. */
function withoutSpace(sheets) {
  return sheets
    .join('\n')
    .replaceAll(/\/\*.*?\*\//gs, '')
    .replaceAll(/\s*\n\s*/g, '\n')
    .trim()
}

/** Test processes read the files while others make them. */
function replace(name, content) {
  const temporary = join(assets, `.${name}.${process.pid}`)
  writeFileSync(temporary, content)
  renameSync(temporary, join(assets, name))
}

/** Those of folders, which have the views, come after those that all use. */
function stylesheets() {
  const names = readdirSync(ui, { recursive: true }).filter((name) => name.endsWith('.css'))
  const depth = (name) => name.split(sep).length
  return names.sort((a, b) => depth(a) - depth(b) || a.localeCompare(b)).map((name) => join(ui, name))
}

function inputsDigest() {
  const scripts = readdirSync(compiled, { recursive: true })
    .filter((name) => name.endsWith('.js'))
    .sort()
    .map((name) => join(compiled, name))
  const files = [...scripts, ...stylesheets(), join(ui, 'icon.svg'), fileURLToPath(import.meta.url)]
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file.length} ${file}`).update(readFileSync(file))
  return hash.digest('hex')
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}
