// A Redis of the benchmark, and what it was used for.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as after } from 'node:timers/promises'
import { Redis } from 'ioredis'

export interface RedisUse {
  readonly bytesIn: number
  readonly bytesOut: number
  readonly cpuMicroseconds: number
  readonly keptBytes: number
}

export class MeasuredRedis implements AsyncDisposable {
  readonly url: string
  readonly #server: ChildProcess
  readonly #dir: string
  readonly #client: Redis

  private constructor(url: string, server: ChildProcess, dir: string) {
    this.url = url
    this.#server = server
    this.#dir = dir
    this.#client = new Redis(url)
  }

  /** `cores` in the form of `taskset`; default: not pinned. */
  static async start(cores?: string): Promise<MeasuredRedis> {
    const dir = mkdtempSync(join(tmpdir(), 'svc-bench-redis-'))
    const port = 20_000 + (process.pid % 10_000)
    const [program = '', ...args] = [
      ...(cores === undefined ? [] : ['taskset', '-c', cores]),
      ...['redis-server', '--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', ''],
    ]
    const server = spawn(program, args)
    await new Promise<void>((resolve, reject) => {
      server.stdout.setEncoding('utf8').on('data', (text: string) => {
        if (text.includes('Ready to accept connections')) resolve()
      })
      server.once('error', reject)
      server.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)))
    })
    return new MeasuredRedis(`redis://127.0.0.1:${port}`, server, dir)
  }

  /** What the work used. The question itself takes a few kilobytes each time, which a slope does not contain. */
  async used(work: () => Promise<void>): Promise<RedisUse> {
    const before = await this.#figures()
    await work()
    const now = await this.#figures()
    const grown = (name: string) => (now.get(name) ?? 0) - (before.get(name) ?? 0)
    return {
      bytesIn: grown('total_net_input_bytes'),
      bytesOut: grown('total_net_output_bytes'),
      cpuMicroseconds: (grown('used_cpu_user') + grown('used_cpu_sys')) * 1e6,
      keptBytes: grown('used_memory_dataset'),
    }
  }

  /** Requests of clients during the work, and all commands with those of scripts. */
  async monitored(work: () => Promise<void>): Promise<{ requests: number; commands: number }> {
    const own = await this.#client.monitor()
    let requests = 0
    let commands = 0
    own.on('monitor', (_time: string, [name = '']: string[], source: string) => {
      if (/^(?:info|ping|client|hello|monitor)$/i.test(name)) return
      commands++
      if (source !== 'lua') requests++
    })
    await work()
    // What is on its way from the server still counts.
    await after(200)
    own.disconnect()
    return { requests, commands }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.disconnect()
    this.#server.kill('SIGKILL')
    await new Promise((resolve) => this.#server.once('exit', resolve))
    rmSync(this.#dir, { recursive: true, force: true })
  }

  async #figures(): Promise<Map<string, number>> {
    const info = await this.#client.info('everything')
    return new Map(
      [...info.matchAll(/^(\w+):([\d.]+)\r?$/gm)].map(([, name = '', value]) => [name, Number(value)]),
    )
  }
}
