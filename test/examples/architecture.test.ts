// docs/architecture.md and the READMEs of plugins name files and folders; this test checks that they exist.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const page = readFileSync(join(root, 'docs', 'architecture.md'), 'utf8')
const paths: readonly string[] =
  page.match(/\b(?:core|plugins|app|control-plane|examples|test|bench)\/[\w./-]*/g) ?? []

describe('docs/architecture.md', () => {
  it('names files and folders that exist', () => {
    const named = paths.map((path) => path.replace(/[.]+$/, ''))
    expect(named).to.have.length.above(80)
    expect(named.filter((path) => !existsSync(join(root, path)))).to.deep.equal([])
  })

  it('names a file without its folder only if the repository has one of that name', () => {
    const files = ['core', 'plugins', 'app', 'control-plane'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .filter((path) => !path.includes('node_modules'))
        .map((path) => basename(path)),
    )
    const named = page.match(/[\w-]+\.ts\b/g) ?? []
    expect(named.filter((name) => !files.includes(name))).to.deep.equal([])
  })

  it('lists every folder of core, plugins and app', () => {
    const folders = ['core', 'plugins', 'app'].flatMap((parent) =>
      readdirSync(join(root, parent), { withFileTypes: true })
        .filter(
          (entry) =>
            entry.isDirectory() && !['bin', 'dist', 'docs', 'examples', 'node_modules'].includes(entry.name),
        )
        .map(({ name }) => `${parent}/${name}/`),
    )
    expect(folders.filter((folder) => !paths.includes(folder))).to.deep.equal([])
  })
})

describe('the README of a plugin', () => {
  it('names files and folders that exist', () => {
    const missing = readdirSync(join(root, 'plugins')).flatMap((plugin) => {
      const readme = readFileSync(join(root, 'plugins', plugin, 'README.md'), 'utf8')
      const named = [...readme.matchAll(/`([\w./-]+(?:\.ts|\/))`/g)].map(([, path = '']) => path)
      const files = readdirSync(join(root, 'plugins', plugin), { recursive: true, encoding: 'utf8' })
      return named
        .filter((path) => !existsSync(join(root, path)))
        .filter((path) => !files.some((file) => `/${file}`.endsWith(`/${path.replace(/\/$/, '')}`)))
        .map((path) => `${plugin}: ${path}`)
    })
    expect(missing).to.deep.equal([])
  })
})
