// Checks the rules of this repository that no linter has: cycles of imports between files and between folders, forbidden
// imports between packages, sections named outside their plugins, classes recognised across packages by `instanceof`,
// tsconfig references, the casing of keys, and exported names: their number, and that each is declared once.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path) => readFileSync(join(root, path), 'utf8')
const errors = []

const sources = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', 'core', 'plugins', 'app', 'control-plane'],
  {
    cwd: root,
    encoding: 'utf8',
  },
)
  .split('\n')
  .filter((path) => /\.tsx?$/.test(path) && existsSync(join(root, path)))

/** Every import of a file: relative ones as paths of the repository, the others as they are written. */
function importsOf(path) {
  const text = read(path)
  return [...text.matchAll(/(?:\bfrom|\bimport|\bimport\()\s*'([^']+)'/g)].map(([, specifier]) =>
    specifier.startsWith('.') ? sourceOf(relative(root, join(root, dirname(path), specifier))) : specifier,
  )
}

function sourceOf(target) {
  const source = target.replace(/\.js$/, '.ts')
  return existsSync(join(root, `${source}x`)) ? `${source}x` : source
}

const imports = new Map(sources.map((path) => [path, importsOf(path)]))

/** Files that import each other, types included, are one idea in two files, or one of them has what belongs below both. */
function checkFiles() {
  const done = new Set()
  const visit = (path, trail) => {
    const start = trail.indexOf(path)
    if (start >= 0) errors.push(`a circle of files: ${[...trail.slice(start), path].join(' imports ')}`)
    if (start >= 0 || done.has(path)) return
    for (const target of imports.get(path)) if (imports.has(target)) visit(target, [...trail, path])
    done.add(path)
  }
  for (const path of imports.keys()) visit(path, [])
}

function checkFolders() {
  const edges = new Map()
  for (const [path, targets] of imports) {
    for (const target of targets.filter((one) => imports.has(one))) {
      const [from, to] = [dirname(path), dirname(target)]
      if (from === to) continue
      if (!edges.has(from)) edges.set(from, new Map())
      if (!edges.get(from).has(to)) edges.get(from).set(to, `${path} imports ${target}`)
    }
  }
  const reaches = (from, goal, seen = new Set()) => {
    if (from === goal) return true
    if (seen.has(from)) return false
    seen.add(from)
    return [...(edges.get(from)?.keys() ?? [])].some((next) => reaches(next, goal, seen))
  }
  for (const targets of edges.values()) {
    for (const [to, example] of targets) {
      const from = dirname(example.split(' ')[0])
      if (reaches(to, from)) errors.push(`${from} and ${to} are in a circle of folders: ${example}`)
    }
  }
}

/** The pages of the console also run in browsers: from the server they import types, and it imports nothing of them. */
const pages = 'app/console/ui/'

function checkPages() {
  for (const path of sources) {
    const isPage = path.startsWith(pages)
    for (const [, kind, specifier] of read(path).matchAll(
      /^(import type|import|export)\b[^'"]*?from '([^']+)'/gm,
    )) {
      if (!specifier.startsWith('.')) {
        if (isPage && !/^preact|^@svc\/plugin-audit\/browser$/.test(specifier))
          errors.push(`${path} imports ${specifier}; pages import preact and the verifier for browsers alone`)
        continue
      }
      const target = sourceOf(relative(root, join(root, dirname(path), specifier)))
      if (target.startsWith(pages) !== isPage && !(isPage && kind === 'import type'))
        errors.push(`${path} imports ${target}, across the border between server and pages`)
    }
  }
}

/** Instances of these may come from another copy of the package; `isRefusal` and the like recognise them. */
const brandedClasses = sources.flatMap((path) =>
  [...read(path).matchAll(/\[brand\] = '(\w+)'/g)].map(([, name]) => name),
)
const branded = new RegExp(`\\binstanceof (${brandedClasses.join('|')})\\b`)

/**
 * The parts of the audit log that its tools may use. `fetch` reads the objects that `upload` writes, with its requests.
 */
const audit = 'plugins/audit/log'
const sharedWithTools = ['files', 'format', 'keys', 'merkle', 'tree', 'tools']

function crossesHalvesOfLog(path, target) {
  const isTool = path.startsWith(`${audit}/tools/`)
  if (!target.startsWith(`${audit}/`)) return false
  const folder = target.split('/')[3]
  if (!isTool) return folder === 'tools'
  return (
    !sharedWithTools.includes(folder) && !(folder === 'upload' && path.startsWith(`${audit}/tools/fetch/`))
  )
}

function checkBoundaries() {
  for (const [path, targets] of imports) {
    const [top, section] = path.split('/')
    const own = top === 'plugins' ? `@svc/plugin-${section}` : undefined
    for (const target of targets) {
      const isPlugin = /^@svc\/plugin-/.test(target)
      const isForbidden =
        (top === 'core' && /^(@svc\/|svc-sdk)/.test(target)) ||
        (top === 'plugins' && ((isPlugin && !target.startsWith(own)) || /^svc-sdk/.test(target))) ||
        (path.startsWith(`${audit}/`) && /^plugins\/audit\/(?!log\/)/.test(target)) ||
        crossesHalvesOfLog(path, target)
      if (isForbidden) errors.push(`${path} imports ${target}, which its package may not`)
    }
    if (branded.test(read(path)))
      errors.push(`${path} recognises a branded class by instanceof; use its is… function`)
  }
}

/** Pages load the format of the log: it has nothing of Node, and imports no other part of the log. */
function checkFormat() {
  const format = `${audit}/format/`
  for (const path of sources.filter((one) => one.startsWith(format))) {
    for (const [, specifier] of read(path).matchAll(/^(?:import|export) (?!type\b)[^'"]*?from '([^']+)'/gm)) {
      if (!/^\.\/|^@svc\/core\/json\/portable$/.test(specifier)) errors.push(`${path} imports ${specifier}`)
    }
    if (/\b(?:Buffer|process|setImmediate)\b/.test(read(path))) errors.push(`${path} uses a global of Node`)
  }
}

const workspaces = JSON.parse(read('package.json')).workspaces.flatMap((pattern) =>
  execFileSync('git', ['ls-files', `${pattern}/package.json`], { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter(Boolean)
    .map(dirname),
)

/** The script of evidence pages, a project of its own with the types of browsers. */
const evidencePage = 'plugins/audit/log/browser/page'

/** TypeScript builds what a package depends on first; its references therefore follow from its dependencies. */
function checkReferences() {
  const folderOf = new Map(
    workspaces.map((folder) => [JSON.parse(read(`${folder}/package.json`)).name, folder]),
  )
  const listed = (path) =>
    (JSON.parse(read(path)).references ?? []).map((reference) => join(dirname(path), reference.path)).sort()
  const wanted = (folder) => {
    const { dependencies, devDependencies, peerDependencies, optionalDependencies } = JSON.parse(
      read(`${folder}/package.json`),
    )
    const names = Object.keys({
      ...dependencies,
      ...devDependencies,
      ...peerDependencies,
      ...optionalDependencies,
    })
    return [...new Set(names.flatMap((name) => folderOf.get(name) ?? []))].sort()
  }
  const compare = (path, folders) => {
    const missing = folders.filter((folder) => !listed(path).includes(folder))
    const extra = listed(path).filter((folder) => !folders.includes(folder))
    for (const folder of missing) errors.push(`${path} has no reference to ${folder}`)
    for (const folder of extra)
      errors.push(`${path} refers to ${folder}, which is not among its dependencies`)
  }
  const built = workspaces.filter((folder) => existsSync(join(root, folder, 'tsconfig.json')))
  compare('tsconfig.json', [...built, pages.replace(/\/$/, ''), evidencePage].sort())
  for (const folder of [...built, 'test']) compare(`${folder}/tsconfig.json`, wanted(folder))
}

/** Casing of each section's keys. Names that the contract gives in the other casing are listed with them. */
const casings = {
  audit: ['camel', 'failure_mode', 'raw_payloads'],
  privacy: ['snake'],
  authn: ['camel', 'jwks_uri'],
  entitlements: ['snake'],
  security: ['snake'],
  rules: ['snake'],
  protections: ['snake'],
  ap2: ['camel'],
  runtime: ['camel'],
  enforcement: ['snake'],
  'enforcement.escalations': ['camel'],
  dedupe: ['camel'],
  quotas: ['camel', 'failure_mode'],
  brokers: ['snake'],
}

async function checkKeys() {
  const { builtinPlugins } = await import(new URL('../app/dist/policy/plugins.js', import.meta.url))
  const { keysReference } = await import(new URL('../core/dist/policy/index.js', import.meta.url))
  for (const { name, schema } of builtinPlugins) {
    for (const { path } of keysReference(schema)) {
      const key = path.split('.').at(-1)
      const nested = Object.keys(casings).find(
        (section) => `${name}.${path}`.startsWith(`${section}.`) && section.includes('.'),
      )
      const [casing, ...given] = casings[nested ?? name] ?? []
      const isWrong = casing === 'snake' ? /[A-Z]/.test(key) : key.includes('_')
      if (casing === undefined) errors.push(`the section ${name} has no casing in scripts/structure.mjs`)
      else if (isWrong && !given.includes(key) && !key.startsWith('<'))
        errors.push(`${name}.${path} is not in ${casing} case, as the section is`)
    }
  }
}

/**
 * A section belongs to its plugin. Core has mechanisms, and app finds what a section states by tokens; the list of what
 * ships names plugins, and so do the types and commands of the contract.
 */
const namesSections = (path) =>
  /^app\/(gateway\/plugins\.ts|index\.ts|cli\/|policy-tools\/explain\/explainer\.ts)/.test(path)

function checkSectionNames() {
  const sections = [...new Set(sources.flatMap((path) => /^plugins\/([\w-]+)\//.exec(path)?.[1] ?? []))]
  const named = new RegExp(`'(?:${sections.join('|')})'|From \`(?:${sections.join('|')})\``)
  for (const path of sources.filter((one) => /^(core|app)\//.test(one) && !namesSections(one))) {
    const [found] = named.exec(read(path)) ?? []
    if (found !== undefined) errors.push(`${path} names the section ${found}, which only its plugin knows`)
  }
}

/** The exports for programs and plugins are listed name by name, because each name is a promise. */
function checkContract() {
  const { exports } = JSON.parse(read('app/package.json'))
  const entries = Object.values(exports).flatMap(({ types }) => types?.replace('./dist', 'app') ?? [])
  const paths = sources.filter((path) => entries.some((entry) => isEntry(entry, path)))
  const names = paths.flatMap((path) => {
    if (/export \*/.test(read(path))) errors.push(`${path} exports all of a module; name what is needed`)
    return exportsOf(path)
  })
  const { size } = new Set(names)
  if (size > maxNames) errors.push(`svc-sdk exports ${size} names; at most ${maxNames} are the contract`)
}

const maxNames = 231

function isEntry(entry, path) {
  const [start, end = ''] = entry.replace('.d.ts', '.ts').split('*')
  return path.startsWith(start) && path.endsWith(end) && !path.slice(start.length).includes('/')
}

function exportsOf(path) {
  const text = read(path)
  const listed = [...text.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, list]) => list.split(','))
  const declared = [...text.matchAll(/^export (?:async )?(?:function|const|class|interface|type) (\w+)/gm)]
  return [...listed, ...declared.map(([, name]) => name)]
    .map((name) =>
      name
        .replace(/\/\/.*$/gm, '')
        .trim()
        .replace(/^type /, ''),
    )
    .filter((name) => name !== '')
}

/** One exported name has one meaning. Two modules of the log load others on demand, and export what these do. */
function checkNames() {
  const declared = /^export (?:abstract |async )?(?:class|interface|type|function\*?|const|enum) (\w+)/gm
  const places = new Map()
  for (const path of sources.filter((one) => !/\/log\/(?:tools\/on-demand|index)\.ts$/.test(one))) {
    for (const [, name] of read(path).matchAll(declared))
      places.set(name, new Set(places.get(name)).add(path))
  }
  for (const [name, paths] of places) {
    if (paths.size > 1)
      errors.push(`${[...paths].join(' and ')} export ${name}, each with a meaning of its own`)
  }
}

checkContract()
checkPages()
checkNames()
checkSectionNames()
checkFiles()
checkFolders()
checkFormat()
checkBoundaries()
checkReferences()
await checkKeys()
for (const error of errors) process.stderr.write(`${error}\n`)
if (errors.length > 0) process.exitCode = 1
