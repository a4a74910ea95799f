// Logs standard error of a server: with the server's name, few lines a second, without secrets of its environment.
import type { Clock, Logger } from '@svc/core'
import { LimitedLogger } from '../../http/limited-logger.js'
import type { EnvironmentSecret } from './environment.js'

const maxLine = 1_000
/** Shorter lines of a secret reveal too little of it, and occur in other texts too. */
const minSecretLine = 8
/** The last lines, for the message about a process that failed. */
const keptLines = 5

export class StderrLog {
  #server: string
  #secrets: readonly EnvironmentSecret[]
  #logger: LimitedLogger
  #last: string[] = []

  constructor(server: string, secrets: readonly EnvironmentSecret[], logger: Logger, clock: Clock) {
    this.#server = server
    this.#secrets = piecesOf(secrets)
    // Servers also write lines there that are not errors, and may write many.
    this.#logger = new LimitedLogger(
      { ...bindLogger(logger), warn: (fields, text) => logger.info(fields, text) },
      clock,
    )
  }

  add(line: string): void {
    if (line.trim() === '') return
    const shown = this.redacted(line)
    this.#last.push(shown)
    if (this.#last.length > keptLines) this.#last.shift()
    this.#logger.warn({ server: this.#server, stderr: shown }, 'the MCP server wrote to standard error')
  }

  /** The text without secrets, and no longer than a line of the log should be. */
  redacted(text: string): string {
    const hidden = this.#secrets.reduce(
      (shown, { name, value }) => shown.replaceAll(value, `[${name}]`),
      text,
    )
    return hidden.length > maxLine ? `${hidden.slice(0, maxLine)}…` : hidden
  }

  get last(): readonly string[] {
    return this.#last
  }
}

/** The secrets and, as the log has single lines, their lines; the longest first, as one may contain another. */
function piecesOf(secrets: readonly EnvironmentSecret[]): EnvironmentSecret[] {
  return secrets
    .flatMap(({ name, value }) => [
      { name, value },
      ...value
        .split(/\r?\n/)
        .filter((line) => line.length >= minSecretLine)
        .map((line) => ({ name, value: line })),
    ])
    .sort((one, other) => other.value.length - one.value.length)
}

function bindLogger(logger: Logger): Logger {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
  }
}
