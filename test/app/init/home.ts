// A user's home directory with configurations of clients, and a project in it.
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport, type StdioServerParameters } from '@modelcontextprotocol/sdk/client/stdio.js'
import { type Ask, initCommand } from 'svc-sdk/internal/cli/init'
import { configurationPlaces } from 'svc-sdk/internal/init/clients/clients'
import { type Run, runCommand } from '../../support/command.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

/** Writes the files of an installation as npm does, for a package `@scope/server`. */
const npm = `#!/bin/sh
echo '{ "dependencies": { "@scope/server": "1.2.3" } }' >package.json
echo '{ "packages": { "": {}, "node_modules/@scope/server": { "integrity": "sha512-AA==" } } }' >package-lock.json
mkdir -p node_modules/@scope/server node_modules/.bin
echo '{ "bin": "server.js" }' >node_modules/@scope/server/package.json
echo '#!/bin/sh' >node_modules/@scope/server/server.js
chmod 755 node_modules/@scope/server/server.js
ln -s ../@scope/server/server.js node_modules/.bin/server
`

export class Home extends TemporaryDir {
  readonly project = join(this.path, 'project')
  /** Programs that a test puts before those of the machine. */
  readonly programs = join(this.path, 'bin')
  readonly env: Record<string, string> = {
    HOME: this.path,
    PATH: `${this.programs}${delimiter}${process.env['PATH'] ?? ''}`,
  }
  readonly places = configurationPlaces({ env: this.env, platform: process.platform, dir: this.project })

  constructor() {
    super()
    mkdirSync(this.project)
  }

  /** Writes a configuration of the user's, or of the project, and returns its path. */
  write(client: string, content: object | Buffer, isOfDirectory = false): string {
    const place = this.places.find((one) => one.client === client && one.isOfDirectory === isOfDirectory)
    if (place === undefined) throw new Error(`${client} has no such file`)
    mkdirSync(dirname(place.file), { recursive: true })
    writeFileSync(place.file, Buffer.isBuffer(content) ? content : JSON.stringify(content, null, 2))
    return place.file
  }

  /** An npm that asks no registry, and installs a program `server` from any package. */
  writeNpm(): void {
    mkdirSync(this.programs, { recursive: true })
    writeFileSync(join(this.programs, 'npm'), npm, { mode: 0o755 })
  }

  /** `svc init` without a terminal. */
  run(...args: string[]): Promise<Run> {
    return this.asked(undefined, ...args)
  }

  asked(ask: Ask, ...args: string[]): Promise<Run> {
    return runCommand((io) => initCommand(io, this.env, ask), [...args, '--dir', this.project])
  }

  /** Every directory, and mode and text of every file, by its path. */
  content(): Record<string, string> {
    const paths = readdirSync(this.path, { recursive: true }).map(String)
    return Object.fromEntries(
      paths.flatMap((path) => {
        const stat = lstatSync(join(this.path, path))
        if (stat.isDirectory()) return [[path, 'directory']]
        const text = stat.isSymbolicLink() ? '' : readFileSync(join(this.path, path), 'latin1')
        return [[path, `${(stat.mode & 0o777).toString(8)} ${text}`]]
      }),
    )
  }
}

/** A client that starts the entry as Claude Desktop does: in the root directory, with few variables. */
export async function connected(
  home: Home,
  { env, ...entry }: StdioServerParameters,
): Promise<Client & AsyncDisposable> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(
    new StdioClientTransport({ ...entry, cwd: '/', env: { ...home.env, ...env }, stderr: 'ignore' }),
  )
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}
