// The view of the log: its days, its heads, its records, and evidence.
import { LogIcon } from '../kit/icons.js'
import { defineView } from '../kit/view.js'
import { loadLog } from './load.js'
import { Log } from './log.js'

export const logView = defineView({
  id: 'log',
  title: 'Log',
  Icon: LogIcon,
  isFor: ({ may }) => may.read,
  load: loadLog,
  View: Log,
})
