// Bundles the command after `tsc -b`, because loading its 700 modules one by one takes longer than most commands run.
// The bundle has our packages and most libraries, and lists their versions: the command uses it only with those. Does nothing
// if it is made from the files that there are, as processes that run it load parts of it later.
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundleConsole } from './bundle-console.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bundle = join(root, 'app/dist/bundle')
/** Where it is written, before it takes the place of the old one; outside `dist`, which is packed. */
const scratch = mkdtempSync(join(root, 'app/.bundle-'))
process.once('exit', () => rmSync(scratch, { recursive: true, force: true }))
const next = join(scratch, 'new')
const inputsFile = 'inputs.json'

/** Modules that our code requires by the names of their packages, when a policy needs them. */
const required = { '@svc/plugin-rules/on-demand': 'plugins/rules/dist/on-demand.js' }

/** The command, and the modules that it starts as processes or threads by their file name, which end in `-worker.js`. */
const workers = [...workersIn('app'), ...workersIn('core'), ...workersIn('plugins')]
const entries = ['app/dist/cli/start.js', ...workers, ...Object.values(required)]

/** Custom plugins share the first two with the command. The others are optional. */
const unbundled = /^(tsyringe|reflect-metadata|supports-color|@svc\/control-plane|@opentelemetry\/.*)$/
/** prom-client has a copy of the OpenTelemetry API, which is 44 files; copies find each other by a global symbol. */
const external = (id, importer = '') => unbundled.test(id) && !importer.includes('/prom-client/')

/** The module in place of undici. */
const undici = join(root, 'node_modules/undici/parts.js')

/** The groups of modules, once the graph is known. */
let groups
const groupOf = (id, graph) => {
  groups ??= groupsOf(graph)
  return groups.get(id)
}

const [{ rolldown }, { minify }] = await Promise.all([import('rolldown'), import('rolldown/utils')]).catch(
  () => {
    console.error('The command is not bundled, as rolldown is not installed: npm install')
    process.exit(process.argv.includes('--required') ? 1 : 0)
  },
)

await bundleConsole()
if (isCurrent()) {
  // A checkout uses no bundle that is older than its build.
  utimesSync(join(bundle, 'parts.json'), new Date(), new Date())
  process.exit(0)
}
const built = await rolldown({
  cwd: root,
  input: Object.fromEntries(entries.map((file) => [/([^/]+)\.js$/.exec(file)[1], join(root, file)])),
  platform: 'node',
  // Its file for CommonJS finds its parts by a `require` that no bundler sees.
  resolve: { alias: { 'jsonc-parser': join(root, 'node_modules/jsonc-parser/lib/esm/main.js') } },
  external,
  // What groups without the modules that they import need.
  preserveEntrySignatures: 'allow-extension',
  plugins: [
    { name: 'undici', resolveId: (id) => (id === 'undici' ? undici : null), load: partsOfUndici },
    { name: 'source-maps', load },
  ],
})
const { output } = await built.write({
  dir: next,
  // `policy check` takes a quarter less CPU time on Node 20 than with ES modules.
  format: 'cjs',
  strict: true,
  sourcemap: true,
  sourcemapExcludeSources: true,
  comments: false,
  chunkFileNames: '[name]-[hash].js',
  codeSplitting: {
    groups: [
      { test: /node_modules/, name: libraryOf, debugName: 'libraries' },
      { name: groupOf, debugName: 'start', includeDependenciesRecursively: false },
    ],
  },
  plugins: [{ name: 'minify-libraries', renderChunk: minifyLibrary }],
})
await built.close()
const slow = output.filter(
  ({ fileName, code }) => /^(command|log|policy|gateway|sealing)-/.test(fileName) && /\bimport\(/.test(code),
)
if (slow.length > 0) throw new Error(`compiled anew by each start: ${slow.map(({ fileName }) => fileName)}`)
const modules = output.flatMap(({ moduleIds = [] }) => moduleIds).filter((id) => id.startsWith(root))
const folders = [...new Set(modules.map((id) => packageFolder(id)))].filter(
  (folder) => folder !== join(root, 'app'),
)
writeFileSync(join(next, 'package.json'), '{ "type": "commonjs" }\n')
writeFileSync(join(next, 'LICENSES.txt'), licencesOf(folders))
writeFileSync(join(next, 'parts.json'), JSON.stringify(partsOf(folders)))
const manifests = [...folders, join(root, 'app')].map((folder) => join(folder, 'package.json'))
const tool = join(root, 'node_modules/rolldown/package.json')
const inputs = [
  fileURLToPath(import.meta.url),
  tool,
  ...manifests,
  ...modules,
  ...modules.map((id) => `${id}.map`),
]
const files = inputs.filter((file) => existsSync(file)).map((file) => relative(root, file))
writeFileSync(join(next, inputsFile), JSON.stringify({ files, digest: digestOf(files) }))
replace()

function workersIn(folder) {
  return readdirSync(join(root, folder), { recursive: true })
    .filter((file) => /(^|\/)dist\/(?!bundle\/).*-worker\.js$/.test(file) && !file.includes('node_modules'))
    .map((file) => `${folder}/${file}`)
    .sort()
}

/** Whether the files from which the bundle was made are as they were. */
function isCurrent() {
  try {
    const { files, digest } = JSON.parse(readFileSync(join(bundle, inputsFile), 'utf8'))
    return digestOf(files) === digest
  } catch (error) {
    // There is no bundle, or a file of it is gone.
    if (error.code === 'ENOENT') return false
    throw error
  }
}

function digestOf(files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file}\n`).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

function replace() {
  for (let run = 0; ; run++) {
    mkdirSync(bundle, { recursive: true })
    try {
      renameSync(bundle, join(scratch, `old-${run}`))
      renameSync(next, bundle)
      return
    } catch (error) {
      // Another process puts its own there at the same time.
      if (!['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes(error.code) || run === 9) throw error
    }
  }
}

/**
 * What our packages use of undici: its index loads `fetch`, caches, mocks and proxies too, which takes three times as long, and a
 * gateway that fetches keys loads it before it listens.
 */
function partsOfUndici(id) {
  if (id !== undici) return null
  const part = (name) => JSON.stringify(join(root, `node_modules/undici/lib/${name}.js`))
  const code = `import Dispatcher from ${part('dispatcher/dispatcher')}
    import request from ${part('api/api-request')}
    import Agent from ${part('dispatcher/agent')}
    import Client from ${part('dispatcher/client')}
    import Pool from ${part('dispatcher/pool')}
    import errors from ${part('core/errors')}
    Object.assign(Dispatcher.prototype, { request })
    export { Agent, Client, Pool, errors }`
  return { code, map: { version: 3, sources: [], names: [], mappings: '' } }
}

/**
 * Continues the source maps of `tsc`; libraries are not mapped. A native module is found from the package that needs
 * it.
 */
function load(id) {
  if (!id.startsWith(root) || !/\.[cm]?js$/.test(id)) return null
  const code = readFileSync(id, 'utf8')
  if (id.includes('node_modules')) return { code, map: { version: 3, sources: [], names: [], mappings: '' } }
  const { name } = manifestIn(packageFolder(id))
  const map = JSON.parse(readFileSync(`${id}.map`, 'utf8'))
  const own = 'createRequire(import.meta.url)'
  const found = Object.entries(required).find(([module]) => code.includes(`${own}('${module}')`))
  if (found !== undefined) {
    const [module, file] = found
    return { code: code.replace(`${own}('${module}')`, `${own}('./${basename(file)}')`), map }
  }
  return { code: code.replaceAll(own, `createRequire(${own}.resolve('${name}'))`), map }
}

function libraryOf(id) {
  return manifestIn(packageFolder(id)).name.replace(/[^a-z0-9-]/g, '')
}

/**
 * The group of each module that a gateway loads to start: five files load faster than two hundred. `command` is what every
 * command loads. Threads, and commands on keys or logs, load `log` and `sealing` too, which need no library; other modules of
 * theirs are in no group, because each would load a whole file for a part of it. Modules in a group import only from those,
 * from their own group or from one before it, so files do not import each other in circles.
 */
function groupsOf(graph) {
  const importsOf = (id) => graph.getModuleInfo(id)?.importedIds ?? []
  const commandsOf = (id) => graph.getModuleInfo(id)?.dynamicallyImportedIds ?? []
  const reached = (...from) => {
    const found = new Set(from)
    for (const id of found) for (const next of importsOf(id)) found.add(next)
    return found
  }
  // An `import()` of what is not in the bundle stays one, and the command does not keep compiled code of such a file.
  const hasGroup = (id) =>
    commandsOf(id).every((name) => name.startsWith(root)) &&
    !/\bimport\((?!['"])/.test(graph.getModuleInfo(id)?.code ?? '')
  const needsLibrary = (id) => [...reached(id)].some(isLibrary)
  const command = (name) => join(root, `app/dist/cli/${name}.js`)
  const threads = workers.filter((file) => !file.startsWith('app/dist/cli/')).map((file) => join(root, file))
  const apart = reached(...['audit', 'keys'].map(command), ...commandsOf(command('audit')), ...threads)
  const ofPolicy = reached(command('policy'))
  const modules = new Map()
  const add = (group, ids) => {
    for (const id of ids) if (!modules.has(id)) modules.set(id, hasGroup(id) ? group : undefined)
  }
  const loaded = [...reached(command('gateway'))]
  add('command', reached(command('main')))
  add(
    'log',
    loaded.filter((id) => apart.has(id) && !needsLibrary(id)),
  )
  add(
    undefined,
    loaded.filter((id) => apart.has(id)),
  )
  add(
    'policy',
    loaded.filter((id) => ofPolicy.has(id)),
  )
  add('gateway', loaded)
  const opened = ['writer/open-directory', 'seal/sealer'].map((name) =>
    join(root, `plugins/audit/dist/log/${name}.js`),
  )
  add(
    'sealing',
    [...reached(...opened)].filter((id) => !needsLibrary(id)),
  )
  return modules
}

function isLibrary(id) {
  return !id.startsWith('node:') && (!id.startsWith(root) || id.includes('node_modules'))
}

/** Our own code stays readable in stack traces. */
async function minifyLibrary(code, { moduleIds, fileName }) {
  if (moduleIds.length === 0 || !moduleIds.every((id) => id.includes('node_modules'))) return null
  return {
    code: (await minify(fileName, code)).code,
    map: { version: 3, sources: [], names: [], mappings: '' },
  }
}

function packageFolder(file) {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const { name, version } = manifestIn(folder)
    if (name !== undefined && version !== undefined) return folder
  }
}

function manifestIn(folder) {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return {}
    throw error
  }
}

/** The packages in the bundle: each after one that depends on it, from whose folder it is found. */
function partsOf(folders) {
  const missing = new Map(folders.map(manifestIn).map((manifest) => [manifest.name, manifest]))
  if (missing.size < folders.length) throw new Error(`two versions of a package: ${folders.join(', ')}`)
  const parts = []
  const owners = [manifestIn(join(root, 'app'))]
  for (const owner of owners) {
    for (const name of Object.keys({ ...owner.dependencies, ...owner.optionalDependencies })) {
      const found = missing.get(name)
      if (found === undefined) continue
      missing.delete(name)
      owners.push(found)
      parts.push({ owner: owner.name, name, version: found.version })
    }
  }
  if (missing.size > 0) throw new Error(`no package depends on ${[...missing.keys()].join(', ')}`)
  return parts
}

/** The licences of the libraries in the bundle require that their texts go with it. */
function licencesOf(folders) {
  const libraries = folders.filter((folder) => relative(root, folder).startsWith('node_modules'))
  return libraries.map(licenceIn).join(`\n${'-'.repeat(80)}\n\n`)
}

function licenceIn(folder) {
  const { name, version, license } = manifestIn(folder)
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice)/i.test(file))
  if (files.length === 0) throw new Error(`${name} has no licence text`)
  const texts = files.map((file) => readFileSync(join(folder, file), 'utf8'))
  return `${name} ${version} (${license})\n\n${texts.join('\n')}`
}
