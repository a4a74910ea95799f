// Checks that the links of the README, the docs and the packages' READMEs lead to files of the repository, and to titles in
// them, and that a page shows each picture.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const places = ['README.md', 'CONTRIBUTING.md', 'docs', 'app', 'core', 'control-plane', 'plugins']
const filesIn = (...folders) =>
  execFileSync('git', ['ls-files', ...folders], { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter((path) => path !== '' && existsSync(join(root, path)))
const pages = filesIn(...places).filter((path) => path.endsWith('.md'))

/** Packages name files of the repository by URL, as they are published without them. */
const ownUrl = /^https:\/\/github\.com\/svc-sdk\/svc-sdk\/(?:blob|tree)\/main\/(.*)$/

/** The anchors that GitHub gives to the titles of a page. */
function anchorsOf(file) {
  const titles = readFileSync(file, 'utf8')
    .replaceAll(/^```.*?^```/gms, '')
    .matchAll(/^#+ (.*)$/gm)
  return [...titles].map(([, title]) =>
    title
      .replaceAll(/\]\([^)]*\)/g, '')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )
}

function leadsSomewhere(page, target) {
  const [path, anchor] = target.split('#')
  const own = ownUrl.exec(path)?.[1]
  if (own === undefined && /^https?:/.test(path)) return true
  const file = own === undefined ? resolve(root, dirname(page), path || basename(page)) : join(root, own)
  if (!existsSync(file)) return false
  return anchor === undefined || !file.endsWith('.md') || anchorsOf(file).includes(anchor)
}

const linked = new Set()
const report = (error) => {
  process.stderr.write(`${error}\n`)
  process.exitCode = 1
}
for (const page of pages) {
  const targets = readFileSync(join(root, page), 'utf8').matchAll(/(?:\]\(|\bsrc(?:set)?=")([^)\s"]+)/g)
  for (const [, target] of targets) {
    linked.add(resolve(root, dirname(page), target))
    if (!leadsSomewhere(page, target)) report(`${page}: the link ${target} leads to no file or title`)
  }
}
for (const image of filesIn('docs/images'))
  if (!linked.has(resolve(root, image))) report(`${image}: no page shows it`)
