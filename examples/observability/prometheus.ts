// Runs Debian's `prometheus` on the configuration of this example, with the addresses of this start.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

interface PrometheusOptions {
  /** The configuration file; rule files are beside it. */
  readonly config: string
  /** For its data, and the configuration that it runs on. */
  readonly dir: string
  /** 0 takes a free one. */
  readonly port: number
  readonly scrapeInterval: string
  /** Host and port of the admin listener. */
  readonly target: string
  readonly tokenFile: string
}

/** Resolves when it responds to queries, which is later than it listens. */
export async function startPrometheus(
  options: PrometheusOptions,
): Promise<{ url: string; stop(): Promise<void> }> {
  const { config, dir, port, scrapeInterval, target, tokenFile } = options
  const used = join(dir, 'prometheus.yml')
  mkdirSync(dir, { recursive: true })
  writeFileSync(
    used,
    readFileSync(config, 'utf8')
      .replaceAll('15s', scrapeInterval)
      .replace('alerts.yml', join(dirname(config), 'alerts.yml'))
      .replace('../.svc/admin.token', tokenFile)
      .replace('127.0.0.1:8789', target),
  )
  const args = [`--config.file=${used}`, `--storage.tsdb.path=${join(dir, 'data')}`]
  const child = spawn('prometheus', [...args, `--web.listen-address=127.0.0.1:${port}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exit = once(child, 'exit')
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    await exit
  }
  const address = await readyAddress(child.stderr)
  // The end of that loop has paused it, and Prometheus would wait once the pipe is full.
  child.stderr.resume()
  return { url: `http://${address}`, stop }
}

/** The address on which Prometheus listens, once it responds there. Rejects with its last line if it ends before. */
async function readyAddress(log: Readable): Promise<string> {
  let [address, last] = ['', '']
  for await (const line of createInterface(log)) {
    address = /msg="Listening on".* address=(\S+)/.exec(line)?.[1] ?? address
    if (line.includes('msg="Server is ready')) return address
    last = line
  }
  throw new Error(`prometheus ended: ${last}`)
}
