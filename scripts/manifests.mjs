// Checks the package.json files of the workspace: what a published package must say and carry, that internal
// dependencies name the versions of this checkout, that a plugin reports the version it is published under.
// `--write` first copies each plugin's version into its plugin.ts, and the types of exports for resolvers that read none. An argument names another root to check.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import semver from 'semver'

const { values, positionals } = parseArgs({
  options: { write: { type: 'boolean' } },
  allowPositionals: true,
})
const root = resolve(positionals[0] ?? dirname(dirname(fileURLToPath(import.meta.url))))
const repository = 'https://github.com/svc-sdk/svc-sdk'
const core = '@svc/core'
const statedVersions = {
  'plugin.ts': /^(\s+version: ')([^']*)(',)$/m,
  'mcp/implementation.ts': /^(const PRODUCT_VERSION = ')([^']*)(')$/m,
  'call/contract.ts': /^(export const CORE_VERSION = ')([^']*)(')$/m,
}

const text = (...path) => readFileSync(join(root, ...path), 'utf8')
const { workspaces, engines } = JSON.parse(text('package.json'))
const license = text('LICENSE')
const packages = workspaces.flatMap(foldersOf).map((folder) => ({
  folder,
  manifest: JSON.parse(text(folder, 'package.json')),
}))
const byName = new Map(packages.map(({ manifest }) => [manifest.name, manifest]))

/** The folders that a workspace pattern names: one folder, or with `/*` at its end all those inside it. */
function foldersOf(pattern) {
  const folders = pattern.endsWith('/*')
    ? readdirSync(join(root, pattern.slice(0, -2))).map((name) => pattern.slice(0, -1) + name)
    : [pattern]
  return folders.filter((folder) => existsSync(join(root, folder, 'package.json')))
}

function fieldMistakes({ folder, manifest }) {
  const wanted = {
    homepage: `${repository}/tree/main/${folder}#readme`,
    bugs: { url: `${repository}/issues` },
    repository: { type: 'git', url: `git+${repository}.git`, directory: folder },
    license: 'Apache-2.0',
    type: 'module',
    engines,
    publishConfig: { access: 'public' },
  }
  const mistakes = Object.entries(wanted)
    .filter(([field, value]) => !isDeepStrictEqual(manifest[field], value))
    .map(([field, value]) => `${field} must be ${JSON.stringify(value)}`)
  for (const field of ['description', 'keywords', 'sideEffects', 'exports', 'files']) {
    const value = manifest[field]
    if (value === undefined || value.length === 0) mistakes.push(`${field} is missing`)
  }
  return mistakes
}

/** The types of exports by path: TypeScript with `module: commonjs` does not read `exports`. */
function typesOf({ exports }) {
  const stated = Object.entries(exports).flatMap(([path, { types }]) =>
    types === undefined ? [] : [[path, types]],
  )
  const below = stated.filter(([path]) => path !== '.').map(([path, types]) => [path.slice(2), [types]])
  return {
    types: Object.fromEntries(stated)['.'],
    typesVersions: below.length === 0 ? undefined : { '*': Object.fromEntries(below) },
  }
}

function typeMistakes({ manifest }) {
  return Object.entries(typesOf(manifest))
    .filter(([field, value]) => !isDeepStrictEqual(manifest[field], value))
    .map(([field]) => `${field} does not have the types of exports (npm run check:manifests -- --write)`)
}

function writeTypes({ folder, manifest }) {
  if (manifest.private) return
  const { types: _, typesVersions: __, ...rest } = manifest
  const entries = Object.entries(rest).flatMap((entry) =>
    entry[0] === 'exports' ? [...Object.entries(typesOf(manifest)), entry] : [entry],
  )
  Object.assign(manifest, typesOf(manifest))
  writeFileSync(
    join(root, folder, 'package.json'),
    `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`,
  )
}

function fileMistakes({ folder }) {
  const mistakes = []
  const copy = join(folder, 'LICENSE')
  if (!existsSync(join(root, copy)) || text(copy) !== license)
    mistakes.push('LICENSE must be a copy of /LICENSE')
  if (!existsSync(join(root, folder, 'README.md'))) mistakes.push('README.md is missing')
  return mistakes
}

/** A bundler drops a module that `sideEffects` does not list, and with it what the module imports for its effect. */
function sideEffectMistakes({ folder, manifest }) {
  const listed = Array.isArray(manifest.sideEffects) ? manifest.sideEffects : []
  return sourcesOf(folder)
    .filter((source) => /^import '/m.test(text(folder, source)))
    .map((source) => `./dist/${source.replace(/\.ts$/, '.js')}`)
    .filter((built) => !listed.includes(built))
    .map((built) => `sideEffects must list ${built}, which imports a module for its effect`)
}

function sourcesOf(folder) {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter(({ name }) => name !== 'dist' && name !== 'node_modules')
    .flatMap((entry) =>
      entry.isDirectory()
        ? sourcesOf(join(folder, entry.name)).map((source) => `${entry.name}/${source}`)
        : [entry.name],
    )
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
}

/** Published packages have caret ranges, so that one can be upgraded alone; this checkout has its own versions. */
function admits(range, version, isPublished) {
  return isPublished ? range.startsWith('^') && semver.satisfies(version, range) : range === version
}

function dependencyMistakes({ manifest }) {
  const mistakes = []
  for (const kind of ['dependencies', 'optionalDependencies', 'devDependencies', 'peerDependencies']) {
    for (const [name, range] of Object.entries(manifest[kind] ?? {})) {
      const target = byName.get(name)
      if (target === undefined) continue
      if (!admits(range, target.version, manifest.private !== true && kind !== 'devDependencies')) {
        mistakes.push(`${kind} asks for ${name} ${range}; the workspace holds ${target.version}`)
      }
      if (target.private && !manifest.private && kind !== 'devDependencies') {
        mistakes.push(`${kind} names ${name}, which is private`)
      }
    }
  }
  return mistakes
}

const isPlugin = ({ manifest }) => manifest.name.startsWith('@svc/plugin-')

/** Every plugin uses the one core that the application installs. */
function pluginMistakes({ folder, manifest }) {
  const mistakes = []
  const range = manifest.peerDependencies?.[core]
  if (range === undefined) mistakes.push(`peerDependencies must name ${core}`)
  if (manifest.dependencies?.[core] !== undefined) mistakes.push(`dependencies must not name ${core}`)
  const stated = /^\s+core: '([^']*)',$/m.exec(text(folder, 'plugin.ts'))?.[1]
  if (range !== undefined && stated !== range) {
    mistakes.push(`plugin.ts asks for core ${stated}, peerDependencies for ${range}`)
  }
  return mistakes
}

/** The sources that state the version of their package. */
function statedIn({ folder }) {
  return Object.entries(statedVersions).filter(([file]) => existsSync(join(root, folder, file)))
}

function versionMistakes({ folder, manifest }) {
  return statedIn({ folder })
    .map(([file, pattern]) => [file, pattern.exec(text(folder, file))?.[2]])
    .filter(([, version]) => version !== manifest.version)
    .map(([file, version]) => `${file} says version ${version}, package.json ${manifest.version}`)
}

function writeVersions({ folder, manifest }) {
  for (const [file, pattern] of statedIn({ folder })) {
    writeFileSync(join(root, folder, file), text(folder, file).replace(pattern, `$1${manifest.version}$3`))
  }
}

if (values.write) {
  packages.forEach(writeVersions)
  packages.forEach(writeTypes)
}
const mistakes = packages.flatMap((one) => {
  const checks = one.manifest.private
    ? [dependencyMistakes]
    : [fieldMistakes, fileMistakes, sideEffectMistakes, typeMistakes, dependencyMistakes, versionMistakes]
  if (isPlugin(one)) checks.push(pluginMistakes)
  return checks.flatMap((check) => check(one)).map((mistake) => `${one.folder}: ${mistake}`)
})
for (const mistake of mistakes) console.error(mistake)
if (mistakes.length > 0) process.exitCode = 1
