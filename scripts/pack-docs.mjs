// Run by npm before and after it packs `app/`: copies the documentation and the examples that it cites into the
// package. Links to what is not in the package become links to the repository. `--remove` deletes the copies.
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const app = join(root, 'app')
const copied = ['docs', 'examples']
const unshipped = new Set(['dist', 'node_modules', '.svc', 'package.json', 'tsconfig.json'])

for (const folder of copied) rmSync(join(app, folder), { recursive: true, force: true })
if (!process.argv.includes('--remove')) {
  for (const folder of copied) {
    cpSync(join(root, folder), join(app, folder), {
      recursive: true,
      filter: (path) => !unshipped.has(basename(path)),
    })
    pagesIn(join(app, folder)).forEach(linkToRepository)
  }
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
    return `](https://github.com/svc-sdk/svc-sdk/blob/main/${relative(app, path)}`
  })
  writeFileSync(page, linked)
}
