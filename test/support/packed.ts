// The packages as users install them: packed, unpacked below one directory, third-party packages linked.
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const repository = fileURLToPath(new URL('../../..', import.meta.url))
const installed = join(repository, 'node_modules')

interface PackedFile {
  readonly name: string
  readonly filename: string
}

/** Packs every package that a gateway needs, and the control plane. */
function packTo(target: string): void {
  // npm would do it too, but not while it ignores scripts.
  execFileSync(process.execPath, [join(repository, 'scripts/bundle.mjs'), '--required'])
  const plugins = readdirSync(join(repository, 'plugins')).map((name) => `plugins/${name}`)
  const flags = ['core', 'app', 'control-plane', ...plugins].flatMap((folder) => ['--workspace', folder])
  const printed = execFileSync(
    'npm',
    ['pack', '--json', '--ignore-scripts', '--pack-destination', target, ...flags],
    { cwd: repository, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] },
  )
  writeFileSync(join(target, 'packed.json'), printed)
}

/** The directory with the packages, packed once for all processes of a run that has a directory of its own. */
function packedOnce(): string {
  const run = process.env['SVC_TEST_RUN']
  const shared = run === undefined ? undefined : join(run, 'packages')
  if (shared !== undefined && existsSync(shared)) return shared
  const own = mkdtempSync(join(run ?? tmpdir(), 'svc-packages-'))
  packTo(own)
  if (shared === undefined) {
    process.once('exit', () => rmSync(own, { recursive: true, force: true }))
    return own
  }
  try {
    renameSync(own, shared)
  } catch (error) {
    // Another process has packed them in the meantime.
    if (!existsSync(shared)) throw error
    rmSync(own, { recursive: true })
  }
  return shared
}

/** Puts the packages that a gateway needs into `target`, and those in `others`. */
export function packInto(target: string, others: readonly string[] = []): readonly PackedFile[] {
  const directory = packedOnce()
  const all = Object.values<PackedFile>(JSON.parse(readFileSync(join(directory, 'packed.json'), 'utf8')))
  const wanted = all.filter(({ name }) => name !== '@svc/control-plane' || others.includes(name))
  for (const { filename } of wanted) copyFileSync(join(directory, filename), join(target, filename))
  return wanted
}

export class PackedInstall {
  /** An empty project: what a module in it imports comes from the tarballs. */
  readonly directory = mkdtempSync(join(tmpdir(), 'svc-packed-'))
  readonly #tarballs: Map<string, string>

  constructor() {
    const target = join(this.directory, '.tarballs')
    mkdirSync(target)
    const packed = packInto(target)
    this.#tarballs = new Map(packed.map(({ name, filename }) => [name, join(target, filename)]))
    for (const name of this.#tarballs.keys()) this.unpack(name, join(this.directory, 'node_modules', name))
    this.#linkOthers()
  }

  /** One more copy of a package, for instance below a plugin's own `node_modules`. */
  unpack(name: string, directory: string): void {
    const tarball = this.#tarballs.get(name)
    if (tarball === undefined) throw new Error(`${name} is not among the packed packages`)
    mkdirSync(directory, { recursive: true })
    execFileSync('tar', ['-xzf', tarball, '-C', directory, '--strip-components=1'])
  }

  /** Packs a package that the test wrote into `folder`, and installs it. */
  add(folder: string): void {
    const printed = execFileSync(
      'npm',
      ['pack', '--json', '--ignore-scripts', '--pack-destination', folder],
      {
        cwd: folder,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    const [packed] = Object.values<PackedFile>(JSON.parse(printed))
    if (packed === undefined) throw new Error(`nothing was packed in ${folder}`)
    this.#tarballs.set(packed.name, join(folder, packed.filename))
    this.unpack(packed.name, join(this.directory, 'node_modules', packed.name))
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }

  #linkOthers(): void {
    for (const name of readdirSync(installed)) {
      if (name.startsWith('.') || name === 'svc-sdk' || name === '@svc') continue
      const link = join(this.directory, 'node_modules', name)
      if (!existsSync(link)) symlinkSync(join(installed, name), link)
    }
  }
}
