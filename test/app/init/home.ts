// A user's home directory with configurations of clients, and a project in it.
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Ask, initCommand } from 'svc-sdk/internal/cli/init'
import { configurationPlaces } from 'svc-sdk/internal/clients/clients'
import { type Run, runCommand } from '../../support/command.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

export class Home extends TemporaryDir {
  readonly project = join(this.path, 'project')
  readonly env = { HOME: this.path, PATH: process.env['PATH'] ?? '' }
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
