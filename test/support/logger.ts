// A logger that keeps lines in place of printing them.
import type { Logger } from '@svc/core'

interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: Record<string, unknown>
  readonly message: string
}

export interface KeepingLogger extends Logger {
  readonly lines: LogLine[]
}

export function keepingLogger(): KeepingLogger {
  const lines: LogLine[] = []
  const at = (level: LogLine['level']) => (fields: object, message: string) => {
    lines.push({ level, fields: fields as Record<string, unknown>, message })
  }
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
