// The view of the servers and their callers.
import { ServersIcon } from '../kit/icons.js'
import { defineView } from '../kit/view.js'
import { loadServers } from './load.js'
import { ServerPages } from './servers.js'

export const serversView = defineView({
  id: 'servers',
  title: 'Servers',
  Icon: ServersIcon,
  isFor: ({ may }) => may.read_all,
  load: loadServers,
  View: ServerPages,
})
