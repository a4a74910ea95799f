// A host in a scratch directory: its absolute paths are below the directory, and the gateway's surroundings are real.
import { execFile, spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { TestIssuer } from '../../support/issuer.js'
import { freePort } from '../../support/loopback.js'
import { root } from '../../support/pages.js'
import { PrintingProcess } from '../../support/printing-process.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import { svc } from '../../support/svc.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

export const hosts = join(root, 'examples/hosts')
export const fileOf = (name: string): string => readFileSync(join(hosts, name), 'utf8')

const nobody = { uid: 65_534, gid: 65_534 }

/**
 * Not the superuser, if the test is: what the user may not write is then read-only. In a checkout that others may not read
 * it is the superuser.
 */
export const user: { readonly uid?: number; readonly gid?: number } =
  process.getuid?.() === 0 &&
  spawnSync(process.execPath, [svc, '--version'], { ...nobody, stdio: 'ignore' }).status === 0
    ? nobody
    : {}

export class ScratchHost implements AsyncDisposable {
  readonly #dir = new TemporaryDir()
  readonly #ports: ReadonlyMap<string, number>
  #redis: RedisServer | undefined
  #issuer: TestIssuer | undefined

  private constructor(ports: ReadonlyMap<string, number>) {
    this.#ports = ports
    chmodSync(this.#dir.path, 0o755)
  }

  static async start(): Promise<ScratchHost> {
    return new ScratchHost(
      new Map([
        ['8787', await freePort()],
        ['9090', await freePort()],
      ]),
    )
  }

  /** The variables of the policy, if it is configured. */
  get env(): Readonly<Record<string, string>> {
    return {
      HOST_NAME: 'host-1',
      TOOLS_URL: 'http://127.0.0.1:9',
      CONTROL_PLANE_URL: 'http://127.0.0.1:9',
      SVC_AUDIT_KEY: 'svck_of-the-environment',
      OIDC_ISSUER: this.#issuer?.issuer ?? '',
      OIDC_JWKS_URI: this.#issuer?.jwksUri ?? '',
      PUBLIC_URL: 'https://gateway.example.com',
      REDIS_URL: this.#redis?.url ?? '',
      ADMIN_TOKEN: 'a-token-of-the-operator',
    }
  }

  get url(): string {
    return this.map('http://127.0.0.1:8787')
  }

  /** Where the host has the path. */
  path(absolute: string): string {
    return join(this.#dir.path, absolute)
  }

  /** The text with the host's paths and ports for those that it names, beside those of the checkout. */
  map(text: string): string {
    const paths = text
      .split(root)
      .map((part) => part.replaceAll(/(?<![\w.])\/(?:etc|opt|tmp|var)\//g, (at) => `${this.#dir.path}${at}`))
    return paths.join(root).replaceAll(/\b(?:8787|9090)\b/g, (port) => String(this.#ports.get(port)))
  }

  /** The example's policy in /etc/svc, an empty /var/lib/svc that belongs to the user, and what the policy names. */
  async configure(): Promise<void> {
    this.#redis = await startRedis()
    this.#issuer = await TestIssuer.start()
    for (const path of ['/etc/svc', '/var/lib/svc']) mkdirSync(this.path(path), { recursive: true })
    writeFileSync(this.path('/etc/svc/policy.yaml'), this.map(fileOf('etc/policy.yaml')))
    await this.run(['chown', String(user.uid ?? process.getuid?.()), '/var/lib/svc'])
  }

  /** Runs a command of the host to its end, as the superuser. */
  async run(words: readonly string[], options: { cwd?: string; env?: object } = {}): Promise<string> {
    const [program = '', ...args] = words.map((word) => this.map(word))
    const env = { ...process.env, ...options.env }
    const { stdout } = await promisify(execFile)(program, args, {
      ...options,
      env,
      cwd: this.path(options.cwd ?? '/'),
    })
    return stdout
  }

  /** Starts a command as the user, with these variables alone. */
  start(words: readonly string[], env: Readonly<Record<string, string>>, cwd = '/etc/svc') {
    const [program = '', ...args] = words.map((word) => this.map(word))
    const child = spawn(program, args, {
      ...user,
      cwd: this.path(cwd),
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    return new PrintingProcess(child)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#redis?.[Symbol.asyncDispose]()
    await this.#issuer?.[Symbol.asyncDispose]()
    this.#dir[Symbol.dispose]()
  }
}
