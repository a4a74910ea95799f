// Run by npm before and after it packs `app/`: copies the documentation and the examples that it cites into the
// package. Links to what is not in the package become links to the repository, and each example gets what it needs to
// be built outside this workspace. `--remove` deletes the copies.
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const app = join(root, 'app')
const copied = ['docs', 'examples']
const unshipped = new Set(['dist', 'node_modules', '.svc', 'package.json', 'tsconfig.json', 'images'])

for (const folder of copied) rmSync(join(app, folder), { recursive: true, force: true })
if (!process.argv.includes('--remove')) {
  for (const folder of copied) {
    cpSync(join(root, folder), join(app, folder), {
      recursive: true,
      filter: (path) => !unshipped.has(basename(path)),
    })
    pagesIn(join(app, folder)).forEach(linkToRepository)
  }
  for (const name of readdirSync(join(root, 'examples'))) {
    // An example in another language has no manifest.
    if (existsSync(join(root, 'examples', name, 'package.json'))) standAlone(join('examples', name))
  }
}

/** Writes a manifest and a compiler configuration that do not need the workspace around the example. */
function standAlone(folder) {
  const { devDependencies: tools } = readJson('package.json')
  // The copy does not export what this workspace's own tests import.
  const { exports: _exports, devDependencies: owned, ...rest } = readJson(join(folder, 'package.json'))
  const needed = Object.fromEntries(['@types/node', 'typescript'].map((name) => [name, tools[name]]))
  const manifest = { ...rest, devDependencies: { ...owned, ...needed } }
  const { compilerOptions } = readJson('tsconfig.base.json')
  const { extends: _base, references: _references, ...own } = readJson(join(folder, 'tsconfig.json'))
  const compiler = { ...own, compilerOptions: { ...compilerOptions, ...own.compilerOptions } }
  writeJson(join(folder, 'package.json'), manifest)
  writeJson(join(folder, 'tsconfig.json'), compiler)
}

function readJson(path) {
  return JSON.parse(readFileSync(join(root, path), 'utf8'))
}

function writeJson(path, value) {
  writeFileSync(join(app, path), `${JSON.stringify(value, null, 2)}\n`)
}

function pagesIn(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name))
}

function linkToRepository(page) {
  const text = readFileSync(page, 'utf8')
  const linked = text.replace(/\]\((?!https?:|#)([^)#\s]+)/g, (link, target) => {
    const path = resolve(dirname(page), target)
    if (existsSync(path)) return link
    const view = /\.(png|webp)$/.test(path) ? 'raw' : 'blob'
    return `](https://github.com/svc-sdk/svc-sdk/${view}/main/${relative(app, path)}`
  })
  writeFileSync(page, linked)
}
