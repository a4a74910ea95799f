// Checks that the links of the README, the docs and the packages' READMEs lead to files of the repository.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const places = ['README.md', 'CONTRIBUTING.md', 'docs', 'app', 'core', 'control-plane', 'plugins']
const pages = execFileSync('git', ['ls-files', ...places], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((path) => path.endsWith('.md') && existsSync(join(root, path)))

/** Packages name files of the repository by URL, as they are published without them. */
const ownUrl = /^https:\/\/github\.com\/svc-sdk\/svc-sdk\/(?:blob|tree)\/main\/(.*)$/

function leadsSomewhere(page, target) {
  const ownFile = ownUrl.exec(target)?.[1]
  if (ownFile !== undefined) return existsSync(join(root, ownFile))
  return /^https?:/.test(target) || existsSync(resolve(root, dirname(page), target))
}

for (const page of pages) {
  const targets = readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!#)([^)#\s]+)/g)
  for (const [, target] of targets) {
    if (leadsSomewhere(page, target)) continue
    process.stderr.write(`${page}: the link ${target} leads to no file\n`)
    process.exitCode = 1
  }
}
